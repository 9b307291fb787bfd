// Package wire reads the messages of the watch fabric as they arrive on the bus: their content must
// be possible, and must belong to the subject.
package wire

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/fabric"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// Subjects returns the subjects that cover a view and the progress of its resource.
func Subjects(resource schema.GroupResource, view fabric.View) []string {
	changes := subject.View(resource.Group, resource.Resource, view.Scope, view.Namespace, view.Name)
	if view.Whole() {
		return []string{changes}
	}
	return []string{changes, subject.Progress(resource.Group, resource.Resource)}
}

// Message decodes a watch message that arrived at a subject. It returns an error if the message is
// not of the resource, if subject and content disagree, or if the content is impossible (rule I6). The
// message's body is a part of data.
func Message(resource schema.GroupResource, at string, data []byte) (*watchv1.Message, error) {
	m, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("reading a watch message at %s: %w", at, err)
	}
	if err := Check(resource, m); err != nil {
		return nil, fmt.Errorf("reading a watch message at %s: %w", at, err)
	}
	switch m.GetType() {
	case watchv1.Type_TYPE_GAP: // Only readers of the log use it.
	case watchv1.Type_TYPE_PROGRESS, watchv1.Type_TYPE_REMOVED:
		if at != subject.Progress(resource.Group, resource.Resource) {
			return nil, fmt.Errorf("reading a watch message at %s: progress does not belong there", at)
		}
	default:
		if want := subject.Watch(m.GetGroup(), m.GetResource(), m.GetScope(), m.GetNamespace(), m.GetName()); at != want {
			return nil, fmt.Errorf("reading a watch message at %s: its content belongs to %s", at, want)
		}
	}
	return m, nil
}

// Check returns an error if a message is not of the resource or is impossible.
func Check(resource schema.GroupResource, m *watchv1.Message) error {
	if m.GetGroup() != resource.Group || m.GetResource() != resource.Resource {
		return fmt.Errorf("it is about %s.%s", m.GetResource(), m.GetGroup())
	}
	if fabric.HistoryOf(m.GetHistory()).IsZero() || m.GetRevision() <= 0 {
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
