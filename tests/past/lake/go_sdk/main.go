// Reads a ledger lake in a folder with Stellar's own SDK: one line of JSON for each ledger from FIRST to LAST.
//
//	go run . FOLDER PASSPHRASE FIRST LAST
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/stellar/go-stellar-sdk/ingest"
	"github.com/stellar/go-stellar-sdk/ingest/ledgerbackend"
	"github.com/stellar/go-stellar-sdk/support/datastore"
)

// Ledger is what is compared with the chain that the lake was written from.
type Ledger struct {
	Sequence  uint32   `json:"sequence"`
	CloseTime int64    `json:"close_time"`
	Hashes    []string `json:"hashes"`
	Changes   int      `json:"changes"`
	Events    int      `json:"events"`
	Evicted   int      `json:"evicted"`
}

func main() {
	if err := read(os.Args[1], os.Args[2], number(os.Args[3]), number(os.Args[4])); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) uint32 {
	value, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		panic(err)
	}
	return uint32(value)
}

func read(folder, passphrase string, first, last uint32) error {
	ctx := context.Background()
	store, err := datastore.NewFilesystemDataStoreWithPath(folder)
	if err != nil {
		return err
	}
	expected := datastore.DataStoreConfig{NetworkPassphrase: passphrase, Compression: "zstd"}
	schema, err := datastore.LoadSchema(ctx, store, expected)
	if err != nil {
		return err
	}
	options := ledgerbackend.BufferedStorageBackendConfig{BufferSize: 8, NumWorkers: 2, RetryLimit: 1, RetryWait: time.Second}
	backend, err := ledgerbackend.NewBufferedStorageBackend(options, store, schema)
	if err != nil {
		return err
	}
	defer backend.Close()
	if err := backend.PrepareRange(ctx, ledgerbackend.BoundedRange(first, last)); err != nil {
		return err
	}
	for sequence := first; sequence <= last; sequence++ {
		ledger, err := readLedger(ctx, backend, passphrase, sequence)
		if err != nil {
			return fmt.Errorf("ledger %d: %w", sequence, err)
		}
		if err := json.NewEncoder(os.Stdout).Encode(ledger); err != nil {
			return err
		}
	}
	return nil
}

func readLedger(ctx context.Context, backend ledgerbackend.LedgerBackend, passphrase string, sequence uint32) (*Ledger, error) {
	meta, err := backend.GetLedger(ctx, sequence)
	if err != nil {
		return nil, err
	}
	evicted, err := meta.EvictedLedgerKeys()
	if err != nil {
		return nil, err
	}
	transactions, err := ingest.NewLedgerTransactionReaderFromLedgerCloseMeta(passphrase, meta)
	if err != nil {
		return nil, err
	}
	defer transactions.Close()
	ledger := &Ledger{Sequence: meta.LedgerSequence(), CloseTime: meta.LedgerCloseTime(), Hashes: []string{}, Evicted: len(evicted)}
	for {
		transaction, err := transactions.Read()
		if errors.Is(err, io.EOF) {
			return ledger, nil
		}
		if err != nil {
			return nil, err
		}
		ledger.Hashes = append(ledger.Hashes, hex.EncodeToString(transaction.Hash[:]))
		changes, err := transaction.GetChanges()
		if err != nil {
			return nil, err
		}
		ledger.Changes += len(changes)
		events, err := transaction.GetTransactionEvents()
		if err != nil {
			return nil, err
		}
		for _, each := range events.OperationEvents {
			ledger.Events += len(each)
		}
	}
}
