//! The official contract host behind lines of JSON: one request a line on standard input, one answer a line on
//! standard output. What the requests are is said in tests/host/machine.py, which sends them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Write};
use std::rc::Rc;

use base64::{engine::general_purpose::STANDARD as BASE64, Engine};
#[cfg(feature = "protocol-22")]
use host_22 as soroban_env_host;
#[cfg(feature = "protocol-30")]
use host_30 as soroban_env_host;
use serde_json::{json, Map, Value};
#[cfg(feature = "protocol-22")]
use simulation_22::{AutoRestoringSnapshotSource, SnapshotSourceWithArchive};
#[cfg(feature = "protocol-30")]
use soroban_env_host::e2e_invoke::RecordingInvocationAuthMode;
use soroban_env_host::{
    budget::Budget,
    e2e_invoke::{invoke_host_function_in_recording_mode, LedgerEntryChange},
    ledger_info::get_key_durability,
    storage::{EntryWithLiveUntil, SnapshotSource},
    xdr::{
        AccountId, ConfigSettingEntry, ConfigSettingId, ContractCostParams, ContractDataDurability, HostFunction,
        LedgerEntry, LedgerEntryData, LedgerKey, LedgerKeyConfigSetting, Limits, PublicKey, ReadXdr, Uint256, WriteXdr,
    },
    HostError, LedgerInfo,
};

#[cfg(feature = "protocol-22")]
const PROTOCOL: u32 = 22;
#[cfg(feature = "protocol-30")]
const PROTOCOL: u32 = 30;

type Result<T> = std::result::Result<T, String>;
type State = BTreeMap<Rc<LedgerKey>, EntryWithLiveUntil>;

/// Ledger entries, each with the last ledger of its life, and what the ledger is that calls run in.
struct Ledger {
    entries: Rc<State>,
    marks: BTreeMap<String, Rc<State>>,
    info: LedgerInfo,
    calls: u64,
}

/// The entries as the host is given them: what has expired is not there. Of persistent entries that is noted, because
/// a transaction that touches one fails before the host is asked.
struct Live {
    entries: Rc<State>,
    ledger: u32,
    archived: RefCell<BTreeSet<Rc<LedgerKey>>>,
}

impl SnapshotSource for Live {
    fn get(&self, key: &Rc<LedgerKey>) -> std::result::Result<Option<EntryWithLiveUntil>, HostError> {
        let Some((entry, live_until)) = self.entries.get(key) else { return Ok(None) };
        if live_until.is_some_and(|last| last < self.ledger) {
            if get_key_durability(key) == Some(ContractDataDurability::Persistent) {
                self.archived.borrow_mut().insert(key.clone());
            }
            return Ok(None);
        }
        Ok(Some((entry.clone(), *live_until)))
    }
}

/// The same, with the archived ones in it, for a simulation that restores them; `asked` are those of them looked at.
struct WithArchive {
    entries: Rc<State>,
    ledger: u32,
    asked: Rc<RefCell<BTreeSet<Rc<LedgerKey>>>>,
}

impl WithArchive {
    fn look(&self, key: &Rc<LedgerKey>) -> Option<EntryWithLiveUntil> {
        let (entry, live_until) = self.entries.get(key)?.clone();
        if live_until.is_some_and(|last| last < self.ledger) {
            if get_key_durability(key) != Some(ContractDataDurability::Persistent) {
                return None;
            }
            self.asked.borrow_mut().insert(key.clone());
        }
        Some((entry, live_until))
    }
}

#[cfg(feature = "protocol-22")]
impl SnapshotSourceWithArchive for WithArchive {
    fn get_including_archived(
        &self,
        key: &Rc<LedgerKey>,
    ) -> std::result::Result<Option<EntryWithLiveUntil>, HostError> {
        Ok(self.look(key))
    }
}

// From protocol 23 on the host itself restores what a simulation looks at.
#[cfg(feature = "protocol-30")]
impl SnapshotSource for WithArchive {
    fn get(&self, key: &Rc<LedgerKey>) -> std::result::Result<Option<EntryWithLiveUntil>, HostError> {
        Ok(self.look(key))
    }
}

fn main() {
    let mut ledger = Ledger { entries: Rc::default(), marks: BTreeMap::new(), info: LedgerInfo::default(), calls: 0 };
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let answer = line
            .map_err(|error| error.to_string())
            .and_then(|line| serde_json::from_str(&line).map_err(|error| error.to_string()))
            .and_then(|request: Value| ledger.answer(&request))
            .unwrap_or_else(|error| json!({ "refused": error }));
        if writeln!(output, "{answer}").and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}

impl Ledger {
    fn answer(&mut self, request: &Value) -> Result<Value> {
        match text(request, "do")? {
            "protocol" => Ok(json!({ "protocol": PROTOCOL })),
            "put" => self.put(request),
            "ledger" => self.set_ledger(request),
            "mark" => {
                self.marks.insert(text(request, "name")?.to_string(), self.entries.clone());
                Ok(json!({}))
            }
            "back" => {
                let name = text(request, "name")?;
                self.entries = self.marks.get(name).ok_or(format!("there is no mark {name}"))?.clone();
                Ok(json!({}))
            }
            "call" => self.call(request),
            other => Err(format!("unknown request: {other}")),
        }
    }

    /// Set entries ([LedgerKey, LedgerEntry or null, last ledger of its life or null]), or take them away.
    fn put(&mut self, request: &Value) -> Result<Value> {
        for item in request["entries"].as_array().ok_or("entries: expected an array")? {
            let key = Rc::new(LedgerKey::from_xdr(bytes(&item[0])?, limits()).map_err(say)?);
            if item[1].is_null() {
                Rc::make_mut(&mut self.entries).remove(&key);
                continue;
            }
            let entry = LedgerEntry::from_xdr(bytes(&item[1])?, limits()).map_err(say)?;
            let live_until = match &item[2] {
                Value::Null => None,
                number => Some(number.as_u64().and_then(|n| n.try_into().ok()).ok_or("an end of life is not a ledger")?),
            };
            if get_key_durability(&key).is_some() != live_until.is_some() {
                return Err("contract data and code have a last ledger of their life, other entries have none".into());
            }
            Rc::make_mut(&mut self.entries).insert(key, (Rc::new(entry), live_until));
        }
        Ok(json!({ "entries": self.entries.len() }))
    }

    fn set_ledger(&mut self, request: &Value) -> Result<Value> {
        let number = |name: &str| -> Result<u64> { request[name].as_u64().ok_or(format!("{name}: expected a number")) };
        let small = |name: &str| -> Result<u32> { number(name)?.try_into().map_err(|_| format!("{name}: too large")) };
        let network: Vec<u8> = hex(text(request, "network_id")?)?;
        self.info = LedgerInfo {
            protocol_version: small("protocol_version")?,
            sequence_number: small("ledger")?,
            timestamp: number("close_time")?,
            network_id: network.try_into().map_err(|_| "network_id: expected 32 bytes")?,
            base_reserve: small("base_reserve")?,
            min_temp_entry_ttl: small("min_temp_entry_ttl")?,
            min_persistent_entry_ttl: small("min_persistent_entry_ttl")?,
            max_entry_ttl: small("max_entry_ttl")?,
        };
        Ok(json!({}))
    }

    fn call(&mut self, request: &Value) -> Result<Value> {
        let function = HostFunction::from_xdr(bytes(&request["function"])?, limits()).map_err(say)?;
        let account: [u8; 32] = match &request["account"] {
            Value::Null => [0; 32],
            named => bytes(named)?.try_into().map_err(|_| "account: expected 32 bytes")?,
        };
        let account = AccountId(PublicKey::PublicKeyTypeEd25519(Uint256(account)));
        // Without authorisation means that whatever asks for one fails; with it, that it is recorded and granted.
        let authorised = request["authorised"].as_bool().unwrap_or(false);
        #[cfg(feature = "protocol-22")]
        let auth = if authorised { None } else { Some(vec![]) };
        #[cfg(feature = "protocol-30")]
        let auth = if authorised {
            RecordingInvocationAuthMode::recording(true, false)
        } else {
            RecordingInvocationAuthMode::Enforcing(vec![])
        };
        let restoring = request["restore"].as_bool().unwrap_or(false);
        let budget = self.budget()?;

        let restored_keys = Rc::new(RefCell::new(BTreeSet::new()));
        let live = Rc::new(Live {
            entries: self.entries.clone(),
            ledger: self.info.sequence_number,
            archived: RefCell::default(),
        });
        let snapshot: Rc<dyn SnapshotSource> = if restoring {
            let archive = Rc::new(WithArchive {
                entries: self.entries.clone(),
                ledger: self.info.sequence_number,
                asked: restored_keys.clone(),
            });
            #[cfg(feature = "protocol-22")]
            let archive = Rc::new(AutoRestoringSnapshotSource::new(archive, &self.info).map_err(say)?);
            archive
        } else {
            live.clone()
        };
        // Nonces of authorisations are drawn from it, and an equal one would be a repetition.
        self.calls += 1;
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.calls.to_be_bytes());
        let mut diagnostics = vec![];
        let outcome = invoke_host_function_in_recording_mode(
            &budget,
            request["diagnostics"].as_bool().unwrap_or(false),
            &function,
            &account,
            auth,
            self.info.clone(),
            snapshot,
            seed,
            &mut diagnostics,
        );
        let mut answer = Map::new();
        answer.insert("cpu".into(), json!(budget.get_cpu_insns_consumed().map_err(say)?));
        answer.insert("memory".into(), json!(budget.get_mem_bytes_consumed().map_err(say)?));
        answer.insert("diagnostics".into(), encoded(&diagnostics)?);
        let restored: Vec<String> = restored_keys.borrow().iter().map(|key| encode(key.as_ref())).collect::<Result<_>>()?;
        answer.insert("restored".into(), json!(restored));
        let archived: Vec<String> = live.archived.borrow().iter().map(|key| encode(key.as_ref())).collect::<Result<_>>()?;
        answer.insert("archived".into(), json!(archived));
        let done = match outcome {
            Ok(done) => done,
            Err(error) => return Ok(failed(answer, &error)),
        };
        let value = match &done.invoke_result {
            Ok(value) => value,
            Err(error) => return Ok(failed(answer, error)),
        };
        answer.insert("result".into(), json!(encode(value)?));
        answer.insert("auth".into(), encoded(&done.auth)?);
        answer.insert("events".into(), encoded(&done.contract_events)?);
        answer.insert("read_only".into(), encoded(done.resources.footprint.read_only.as_slice())?);
        answer.insert("read_write".into(), encoded(done.resources.footprint.read_write.as_slice())?);
        let changes: Vec<Value> = done.ledger_changes.iter().filter_map(|change| self.change(change)).collect();
        answer.insert("changes".into(), json!(changes));
        if request["commit"].as_bool().unwrap_or(false) {
            for change in &done.ledger_changes {
                self.commit(change)?;
            }
        }
        Ok(Value::Object(answer))
    }

    /// The network's cost parameters and limits where the ledger has them, those of the host otherwise.
    fn budget(&self) -> Result<Budget> {
        let setting = |id| {
            let key = LedgerKey::ConfigSetting(LedgerKeyConfigSetting { config_setting_id: id });
            self.entries.get(&key).map(|(entry, _)| &entry.data)
        };
        let costs = |id| -> Option<ContractCostParams> {
            match setting(id)? {
                LedgerEntryData::ConfigSetting(
                    ConfigSettingEntry::ContractCostParamsCpuInstructions(costs)
                    | ConfigSettingEntry::ContractCostParamsMemoryBytes(costs),
                ) => Some(costs.clone()),
                _ => None,
            }
        };
        let found = (
            setting(ConfigSettingId::ContractComputeV0),
            costs(ConfigSettingId::ContractCostParamsCpuInstructions),
            costs(ConfigSettingId::ContractCostParamsMemoryBytes),
        );
        Ok(match found {
            (Some(LedgerEntryData::ConfigSetting(ConfigSettingEntry::ContractComputeV0(limits))), Some(cpu), Some(memory)) => {
                Budget::try_from_configs(
                    limits.tx_max_instructions.try_into().map_err(say)?,
                    limits.tx_memory_limit.into(),
                    cpu,
                    memory,
                )
                .map_err(say)?
            }
            _ => Budget::default(),
        })
    }

    fn change(&self, change: &LedgerEntryChange) -> Option<Value> {
        let ends = change.ttl_change.as_ref().map(|ttl| (ttl.old_live_until_ledger, ttl.new_live_until_ledger));
        if change.read_only && ends.is_none_or(|(old, new)| old == new) {
            return None;
        }
        let value = change.encoded_new_value.as_ref().map(|value| BASE64.encode(value));
        Some(json!([BASE64.encode(&change.encoded_key), change.read_only, value, ends.map(|(_, new)| new)]))
    }

    fn commit(&mut self, change: &LedgerEntryChange) -> Result<()> {
        let key = Rc::new(LedgerKey::from_xdr(&change.encoded_key, limits()).map_err(say)?);
        let entries = Rc::make_mut(&mut self.entries);
        let new_end = change.ttl_change.as_ref().map(|ttl| ttl.new_live_until_ledger);
        if change.read_only {
            if let (Some((_, end)), Some(new_end)) = (entries.get_mut(&key), new_end) {
                *end = Some(new_end);
            }
            return Ok(());
        }
        match &change.encoded_new_value {
            None => {
                entries.remove(&key);
            }
            Some(value) => {
                let mut entry = LedgerEntry::from_xdr(value, limits()).map_err(say)?;
                entry.last_modified_ledger_seq = self.info.sequence_number;
                entries.insert(key, (Rc::new(entry), new_end));
            }
        }
        Ok(())
    }
}

fn failed(mut answer: Map<String, Value>, error: &HostError) -> Value {
    answer.insert("error".into(), json!(format!("{:?}", error.error)));
    answer.insert("message".into(), json!(format!("{error:?}")));
    Value::Object(answer)
}

fn limits() -> Limits {
    Limits { depth: 500, len: 1 << 26 }
}

fn say(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

fn encode(value: &impl WriteXdr) -> Result<String> {
    Ok(BASE64.encode(value.to_xdr(limits()).map_err(say)?))
}

fn encoded<T: WriteXdr>(values: &[T]) -> Result<Value> {
    Ok(json!(values.iter().map(encode).collect::<Result<Vec<String>>>()?))
}

fn text<'a>(request: &'a Value, name: &str) -> Result<&'a str> {
    request[name].as_str().ok_or(format!("{name}: expected text"))
}

fn bytes(value: &Value) -> Result<Vec<u8>> {
    BASE64.decode(value.as_str().ok_or("expected base64")?).map_err(say)
}

fn hex(text: &str) -> Result<Vec<u8>> {
    let digits = text.as_bytes();
    digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16).map_err(say)).collect()
}
