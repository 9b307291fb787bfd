package snapshotfile

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/garboard/garboard/libs/snapshot"
)

// Info describes a snapshot file.
type Info struct {
	File string `json:"file"`
	// Size is the file's size in bytes.
	Size int64 `json:"size"`
	// SHA256 is the verified hash of the database, which equals the one that etcd appended.
	SHA256 string `json:"sha256"`
	// Revision is etcd's last revision; TotalKeys counts the keys that exist at it.
	Revision  int64 `json:"revision"`
	TotalKeys int   `json:"totalKeys"`
}

// openPatience bounds the wait for another process that holds the file.
const openPatience = 5 * time.Second

// revisionBytes is the length of a key in etcd's database: the revision, an underscore, and the
// number of the change within the revision.
const revisionBytes = 17

// Look verifies that a snapshot file is complete, and describes it.
func Look(path string) (Info, error) {
	file, err := os.Open(path)
	if err != nil {
		return Info{}, fmt.Errorf("opening the snapshot: %w", err)
	}
	defer func() { _ = file.Close() }()
	sum, err := snapshot.Verify(file)
	if err != nil {
		return Info{}, fmt.Errorf("%s: %w", path, err)
	}
	info := Info{File: path, SHA256: hex.EncodeToString(sum)}
	if info.Size, err = file.Seek(0, io.SeekEnd); err != nil {
		return Info{}, fmt.Errorf("reading the size of %s: %w", path, err)
	}
	return info, info.read(path)
}

// read reads the database.
func (i *Info) read(path string) (err error) {
	db, err := bbolt.Open(path, 0o400, &bbolt.Options{ReadOnly: true, Timeout: openPatience})
	if err != nil {
		return fmt.Errorf("reading the database in %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bbolt.Tx) error {
		changes := tx.Bucket([]byte("key"))
		if changes == nil {
			return errors.New("it is not an etcd database")
		}
		living := map[string]struct{}{}
		// Changes are in the order of their revisions.
		err := changes.ForEach(func(revision, change []byte) error {
			if len(revision) < revisionBytes {
				return fmt.Errorf("a revision has %d bytes", len(revision))
			}
			key, err := keyOf(change)
			if err != nil {
				return err
			}
			i.Revision = int64(binary.BigEndian.Uint64(revision))
			if len(revision) > revisionBytes { // a deletion marker
				delete(living, key)
			} else {
				living[key] = struct{}{}
			}
			return nil
		})
		i.TotalKeys = len(living)
		return err
	})
	if err != nil {
		return fmt.Errorf("reading the database in %s: %w", path, err)
	}
	return nil
}

// keyField is the number of the key's field in etcd's message of a change (mvccpb.KeyValue).
const keyField = 1

// keyOf returns the key of a change.
func keyOf(change []byte) (string, error) {
	for len(change) > 0 {
		number, kind, n := protowire.ConsumeTag(change)
		if n < 0 {
			return "", fmt.Errorf("reading a change: %w", protowire.ParseError(n))
		}
		change = change[n:]
		if number == keyField && kind == protowire.BytesType {
			key, n := protowire.ConsumeBytes(change)
			if n < 0 {
				return "", fmt.Errorf("reading a change: %w", protowire.ParseError(n))
			}
			return string(key), nil
		}
		if n = protowire.ConsumeFieldValue(number, kind, change); n < 0 {
			return "", fmt.Errorf("reading a change: %w", protowire.ParseError(n))
		}
		change = change[n:]
	}
	return "", errors.New("a change has no key")
}
