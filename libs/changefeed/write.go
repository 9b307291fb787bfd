package changefeed

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// line is a record as JSON.
type line struct {
	Type      string     `json:"type"`
	Origin    Origin     `json:"origin"`
	Time      *time.Time `json:"time,omitempty"`
	After     int64      `json:"after,omitempty"`
	Revision  int64      `json:"revision,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	Namespace string     `json:"namespace,omitempty"`
	Name      string     `json:"name,omitempty"`
	UID       string     `json:"uid,omitempty"`
	Scope     string     `json:"scope,omitempty"`
	Trace     string     `json:"traceParent,omitempty"`
	Omitted   bool       `json:"omitted,omitempty"`
	Fault     string     `json:"fault,omitempty"`
	Object    any        `json:"object,omitempty"`
}

// JSON returns a function that writes each record as one line of JSON: its type (PUT, DELETED,
// LEFT, GAP), its origin, and the object in the API's own form. A body that was left out is marked
// as omitted. A body that cannot be decoded is reported as fault, and the rest of the record is
// written anyway.
func JSON(w io.Writer, table *scheme.Table) func(Record) error {
	encoder := json.NewEncoder(w)
	return func(record Record) error {
		m := record.Message
		out := line{
			Type: strings.TrimPrefix(m.GetType().String(), "TYPE_"), Origin: record.Origin, Revision: m.GetRevision(), Reason: record.Reason,
			Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUid(), Omitted: m.GetOmitted(), Trace: m.GetTraceParent(),
		}
		if m.GetScope() != scheme.Unscoped {
			out.Scope = m.GetScope()
		}
		if m.GetType() == watchv1.Type_TYPE_GAP {
			out.After = m.GetPrevAll()
		}
		if !record.Time.IsZero() {
			out.Time = &record.Time
		}
		if len(m.GetBody()) > 0 {
			object, err := objectOf(table, m)
			if err != nil {
				out.Fault = err.Error()
			} else {
				out.Object = object
			}
		}
		if err := encoder.Encode(out); err != nil {
			return fmt.Errorf("writing a change: %w", err)
		}
		return nil
	}
}

func objectOf(table *scheme.Table, m *watchv1.Message) (scheme.Object, error) {
	kind := table.Stored(schema.GroupResource{Group: m.GetGroup(), Resource: m.GetResource()})
	if kind == nil {
		return nil, fmt.Errorf("the resource %s of group %q is unknown to this program", m.GetResource(), m.GetGroup())
	}
	object, err := table.DecodeStorage(kind, m.GetBody())
	if err != nil {
		return nil, err
	}
	object.SetResourceVersion(strconv.FormatInt(m.GetRevision(), 10))
	return object, nil
}

// Protobuf returns a function that writes each record's message in protobuf, preceded by its length
// as a varint.
func Protobuf(w io.Writer) func(Record) error {
	return func(record Record) error {
		if _, err := protodelim.MarshalTo(w, record.Message); err != nil {
			return fmt.Errorf("writing a change: %w", err)
		}
		return nil
	}
}
