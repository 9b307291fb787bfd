package fabric

import (
	"cmp"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/history"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// Message decodes a watch message that arrived at a subject. It returns an error if the message is
// not of the view's resource, if subject and content disagree, or if the content is impossible
// (rule I6). Covers reports whether the view covers the message.
func (v View) Message(subject string, data []byte) (*watchv1.Message, error) {
	m := &watchv1.Message{}
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("reading a watch message at %s: %w", subject, err)
	}
	if err := v.Check(m); err != nil {
		return nil, fmt.Errorf("reading a watch message at %s: %w", subject, err)
	}
	switch m.GetType() {
	case watchv1.Type_TYPE_GAP: // Only readers of the log use it.
	case watchv1.Type_TYPE_PROGRESS, watchv1.Type_TYPE_REMOVED:
		if subject != bus.ProgressSubject(v.Group, v.Resource) {
			return nil, fmt.Errorf("reading a watch message at %s: progress does not belong there", subject)
		}
	default:
		if want := bus.WatchSubject(m.GetGroup(), m.GetResource(), m.GetScope(), m.GetNamespace(), m.GetName()); subject != want {
			return nil, fmt.Errorf("reading a watch message at %s: its content belongs to %s", subject, want)
		}
	}
	return m, nil
}

// Check returns an error if a message is not of the view's resource or is impossible.
func (v View) Check(m *watchv1.Message) error {
	if m.GetGroup() != v.Group || m.GetResource() != v.Resource {
		return fmt.Errorf("it is about %s.%s", m.GetResource(), m.GetGroup())
	}
	if HistoryOf(m.GetHistory()) == (history.ID{}) || m.GetRevision() <= 0 {
		return errors.New("it has no history or no revision")
	}
	switch m.GetType() {
	case watchv1.Type_TYPE_GAP, watchv1.Type_TYPE_PROGRESS, watchv1.Type_TYPE_REMOVED:
		return nil
	case watchv1.Type_TYPE_PUT, watchv1.Type_TYPE_DELETED, watchv1.Type_TYPE_LEFT:
	default:
		return fmt.Errorf("its type %v is unknown", m.GetType())
	}
	if m.GetPrevAll() >= m.GetRevision() || m.GetPrevNamespace() >= m.GetRevision() || m.GetPrevScope() >= m.GetRevision() {
		return fmt.Errorf("its revision %d is not above what came before", m.GetRevision())
	}
	return nil
}

// Covers reports whether a message is a change in the view. A left message is a change only in the
// scope that the object left.
func (v View) Covers(m *watchv1.Message) bool {
	switch m.GetType() {
	case watchv1.Type_TYPE_PUT, watchv1.Type_TYPE_DELETED:
	case watchv1.Type_TYPE_LEFT:
		if v.Scope == "" {
			return false
		}
	default:
		return false
	}
	return m.GetGroup() == v.Group && m.GetResource() == v.Resource &&
		(v.Namespace == "" || m.GetNamespace() == v.Namespace) && (v.Name == "" || m.GetName() == v.Name) &&
		(v.Scope == "" || cmp.Or(m.GetScope(), scheme.Unscoped) == v.Scope)
}

// Prev returns the revision of the last change before m in the view, as far as m tells. If several
// prevs are valid, it returns the lowest, which covers the most.
func (v View) Prev(m *watchv1.Message) int64 {
	switch {
	case m.GetType() == watchv1.Type_TYPE_PROGRESS:
		return m.GetPrevAll()
	case v.Name != "":
		return Always // Every message is the whole state.
	case m.GetType() == watchv1.Type_TYPE_LEFT:
		return m.GetPrevScope() // It is a statement about the scope only.
	case v.Scope != "" && v.Namespace != "":
		return min(m.GetPrevScope(), m.GetPrevNamespace())
	case v.Scope != "":
		return m.GetPrevScope()
	case v.Namespace != "":
		return m.GetPrevNamespace()
	}
	return m.GetPrevAll()
}
