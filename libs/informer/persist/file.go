package persist

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// A file consists of the magic line, a header in JSON, each object as etcd stores it, and the
// SHA-256 of everything before. Header and objects are each preceded by their length as a varint.
const (
	magic = "garboard informer cache 1\n"
	// maxFile is the size, in bytes, of the largest file that is read or written.
	maxFile = 1 << 30
)

// about describes what a file is for.
type about struct {
	Group, Version, Kind string
	View                 informer.View
	// Program is Config.Version.
	Program string
}

// content is what a file holds.
type content struct {
	about
	// History and Revision are at.
	History  string
	Revision int64
	at       fabric.Position
	// Objects is the number of objects.
	Objects int
	objects []informer.Object
}

// encode returns the bytes of a file.
func encode(table *scheme.Table, kind *scheme.Kind, c content) ([]byte, error) {
	c.History, c.Revision, c.Objects = c.at.History.String(), c.at.Revision, len(c.objects)
	header, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encoding the header: %w", err)
	}
	data := append([]byte(magic), binary.AppendUvarint(nil, uint64(len(header)))...)
	data = append(data, header...)
	for _, obj := range c.objects {
		encoded, err := table.EncodeStorage(kind, obj)
		if err != nil {
			return nil, err
		}
		data = append(binary.AppendUvarint(data, uint64(len(encoded))), encoded...)
	}
	return seal(data), nil
}

// seal adds the checksum.
func seal(data []byte) []byte {
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

// decode parses the bytes of a file; an error if the file is incomplete, or not for the wanted
// view, kind and program version.
func decode(data []byte, table *scheme.Table, kind *scheme.Kind, want about) (content, error) {
	var c content
	if !bytes.HasPrefix(data, []byte(magic)) || len(data) < len(magic)+sha256.Size {
		return c, errors.New("not a cache file, or one of another format version")
	}
	body, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if sha256.Sum256(body) != [sha256.Size]byte(sum) {
		return c, errors.New("damaged: wrong checksum")
	}
	rest := body[len(magic):]
	next := func() ([]byte, error) {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil, errors.New("damaged: the file ends early")
		}
		part := rest[n : n+int(size)] //nolint:gosec // At most len(rest).
		rest = rest[n+len(part):]
		return part, nil
	}
	header, err := next()
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(header, &c); err != nil {
		return c, fmt.Errorf("reading the header: %w", err)
	}
	if c.about != want {
		return c, fmt.Errorf("the file is for %+v, want %+v", c.about, want)
	}
	history, err := fabric.ParseHistory(c.History)
	if err != nil || c.Revision <= 0 {
		return c, errors.New("the header has no history or no revision of etcd")
	}
	c.at = fabric.Position{History: history, Revision: c.Revision}
	for len(rest) > 0 {
		encoded, err := next()
		if err != nil {
			return c, err
		}
		obj, err := table.DecodeStorage(kind, encoded)
		if err != nil {
			return c, err
		}
		c.objects = append(c.objects, obj)
	}
	if len(c.objects) != c.Objects {
		return c, fmt.Errorf("the file holds %d objects, its header says %d", len(c.objects), c.Objects)
	}
	return c, nil
}

// read reads a file.
func read(path string, table *scheme.Table, kind *scheme.Kind, want about) (content, error) {
	info, err := os.Stat(path)
	if err != nil {
		return content{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return content{}, fmt.Errorf("not a regular file, or larger than %d bytes", maxFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return content{}, err
	}
	return decode(data, table, kind, want)
}

// write replaces a file in one step: if the process or the machine dies at any moment, the file is
// either the old or the new one.
func write(path string, table *scheme.Table, kind *scheme.Kind, c content) error {
	data, err := encode(table, kind, c)
	if err != nil {
		return err
	}
	if len(data) > maxFile {
		return fmt.Errorf("the file would have %d bytes, more than %d", len(data), maxFile)
	}
	next := path + ".next"
	if err := writeSynced(next, data); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	if err := os.Rename(next, path); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func writeSynced(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}
