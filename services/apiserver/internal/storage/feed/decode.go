package feed

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// decode reads a record. An unreadable object is not shown, as if it did not exist; a read by name
// returns an error that names its key. The error of decode is a *store.IncompleteError: the record can
// be read later.
func (f *Feed) decode(record store.Record) (change, error) {
	c := change{namespace: record.Namespace, name: record.Name}
	if record.Deleted {
		return c, nil
	}
	obj, raw, err := f.object(record)
	if later := (*store.IncompleteError)(nil); errors.As(err, &later) {
		return c, err
	}
	if err != nil {
		f.metrics.undecodable.WithLabelValues(f.kind.Group, f.kind.Resource).Inc()
		c.unreadable = true
		f.logger.Error("a stored object cannot be read and is not shown", "revision", record.Revision, "err", err)
		return c, nil
	}
	c.object, c.raw, c.plain = obj, raw, scheme.Plain(raw, obj)
	if len(raw) > 0 && &raw[0] != &record.Raw[0] {
		c.digest = store.Digest(record.Raw)
	}
	return c, nil
}

// object decodes a record's value and applies the defaults to it. It returns the object and the
// value it then has. A value whose decoder panics counts as unreadable too: a restart would only
// meet it again.
func (f *Feed) object(record store.Record) (obj scheme.Object, raw []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			obj, raw, err = nil, nil, fmt.Errorf("decoding %s/%s panicked: %v\n%s", record.Namespace, record.Name, r, debug.Stack())
		}
	}()
	if obj, err = f.storage.Object(f.kind, record); err != nil {
		return nil, nil, err
	}
	if raw, err = f.storage.Completed(f.kind, record, obj); err != nil {
		return nil, nil, err
	}
	f.parts.Share(obj)
	return obj, raw, nil
}
