package fabricsource

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/fabric/wire"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/scheme/envelope"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// reader parses what arrives over the bus for one view of one kind.
type reader struct {
	table *scheme.Table
	kind  *scheme.Kind
	view  informer.View
	bare  bool // drops who manages which fields
}

// event is a parsed watch message.
type event struct {
	statement
	// progress marks a progress message: last is prev, seen is revision.
	progress bool
	// removed marks the message that the resource is no longer served.
	removed bool
	// start is the start of the publisher's window, in a progress message.
	start int64
	// omitted means that the change itself is not known.
	omitted bool
	// ignored means that the message is not a statement about the view.
	ignored bool
	// fault is why a body could not be read; the event then has omitted set.
	fault error
}

// message parses a watch message. On an error the message must be discarded (I6).
func (r reader) message(subject string, data []byte) (event, error) {
	m, err := wire.Message(r.kind.GroupResource(), subject, data)
	if err != nil {
		return event{}, err
	}
	e := event{statement: statement{History: fabric.HistoryOf(m.GetHistory()), Revision: m.GetRevision(), Size: len(data)}}
	if m.GetType() == watchv1.Type_TYPE_PROGRESS {
		e.progress, e.Prev, e.start = true, m.GetPrevAll(), m.GetWindowStart()
		return e, nil
	}
	if m.GetType() == watchv1.Type_TYPE_REMOVED {
		e.removed = true
		return e, nil
	}
	if !r.view.Covers(m) {
		e.ignored = true
		return e, nil
	}
	e.Prev = r.view.Prev(m)
	if m.GetOmitted() {
		e.omitted = true
		return e, nil
	}
	c, err := r.change(m.GetRevision(), m.GetType() != watchv1.Type_TYPE_PUT, m.GetNamespace(), m.GetName(), m.GetUid(), m.GetEncoding(), m.GetBody())
	if err != nil {
		e.omitted, e.fault = true, err
		return e, nil
	}
	if e.Prev != fabric.Always {
		c.Prev = e.Prev
	}
	e.Changes = []informer.Change{c}
	return e, nil
}

// change parses one change. A deletion may lack the body, and an unreadable body is left out: the
// deletion is true all the same. For any other change an unreadable body is an *unreadable error.
func (r reader) change(revision int64, deleted bool, namespace, name, uid string, encoding watchv1.Encoding, body []byte) (informer.Change, error) {
	c := informer.Change{Revision: revision, Deleted: deleted, Namespace: namespace, Name: name, UID: uid}
	if deleted && len(body) == 0 {
		return c, nil
	}
	obj, err := r.object(c, encoding, body)
	if err == nil {
		c.Object = obj
		return c, nil
	}
	if deleted {
		return c, nil
	}
	return c, &unreadable{fmt.Errorf("reading %s %s/%s at revision %d: %w", r.kind.GroupResource(), namespace, name, revision, err)}
}

func (r reader) object(c informer.Change, encoding watchv1.Encoding, body []byte) (informer.Object, error) {
	if encoding != watchv1.Encoding_ENCODING_KUBERNETES_PROTOBUF && encoding != watchv1.Encoding_ENCODING_JSON {
		return nil, fmt.Errorf("unknown encoding %v", encoding)
	}
	if r.bare {
		body = envelope.WithoutManagers(body)
	}
	obj, err := r.table.DecodeStorage(r.kind, body)
	if err != nil {
		return nil, err
	}
	if obj.GetNamespace() != c.Namespace || obj.GetName() != c.Name || string(obj.GetUID()) != c.UID {
		return nil, fmt.Errorf("the body belongs to %s/%s", obj.GetNamespace(), obj.GetName())
	}
	obj.SetResourceVersion(strconv.FormatInt(c.Revision, 10))
	return obj, nil
}

// unreadable reports that the body of an object cannot be read. The rest of the statement can.
type unreadable struct{ err error }

func (u *unreadable) Error() string { return u.err.Error() }

func (u *unreadable) Unwrap() error { return u.err }

// placeholder stands for an object that exists, with this metadata, but cannot be read.
func (r reader) placeholder(c informer.Change) informer.Object {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: r.kind.GroupVersion().String(), Kind: r.kind.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: c.Name, UID: types.UID(c.UID), ResourceVersion: strconv.FormatInt(c.Revision, 10),
		},
	}
}

// ask encodes an ask.
func (r reader) ask(a ask) ([]byte, error) {
	message := &watchv1.Ask{
		Group: r.kind.Group, Resource: r.kind.Resource,
		Namespace: r.view.Namespace, Name: r.view.Name, Scope: r.view.Scope,
		History: a.history.Wire(), Minimum: a.minimum, Fresh: a.fresh,
	}
	if a.delta {
		message.Since = new(a.since)
	}
	if a.compare {
		message.Digest = new(a.digest)
	}
	data, err := proto.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encoding an ask: %w", err)
	}
	return data, nil
}
