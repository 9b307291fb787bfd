package save

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.etcd.io/bbolt"

	"github.com/garboard/garboard/libs/snapshot"
)

// Info is what there is to know of a snapshot in a file.
type Info struct {
	File string `json:"file"`
	// Size is the file's in bytes.
	Size int64 `json:"size"`
	// SHA256 is the hash of the database, which was found to be the one that etcd appended.
	SHA256 string `json:"sha256"`
	// Revision is etcd's last; TotalKeys counts what is in the database, states of the past and
	// etcd's own entries included, as etcdutl does.
	Revision  int64 `json:"revision"`
	TotalKeys int   `json:"totalKeys"`
}

// openPatience is how long another process may hold the file.
const openPatience = 5 * time.Second

// revisionBytes is the length of a key in etcd's database: the revision, an underscore, and the
// number of the change in it.
const revisionBytes = 17

// Look makes sure that the snapshot in a file is whole, and says what is in it.
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

// read looks into the database.
func (i *Info) read(path string) (err error) {
	db, err := bbolt.Open(path, 0o400, &bbolt.Options{ReadOnly: true, Timeout: openPatience})
	if err != nil {
		return fmt.Errorf("reading the database in %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, bucket *bbolt.Bucket) error {
			changes := bytes.Equal(name, []byte("key"))
			return bucket.ForEach(func(key, _ []byte) error {
				i.TotalKeys++
				if changes && len(key) >= revisionBytes {
					i.Revision = max(i.Revision, int64(binary.BigEndian.Uint64(key)))
				}
				return nil
			})
		})
	})
	if err != nil {
		return fmt.Errorf("reading the database in %s: %w", path, err)
	}
	return nil
}
