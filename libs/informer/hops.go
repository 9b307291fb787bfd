package informer

import (
	"strconv"

	"github.com/garboard/garboard/libs/informer/internal/pending"
	"github.com/garboard/garboard/libs/trace"
)

// hops traces the changes of a statement.
func (s *shared[T]) hops(st *statement) {
	for i := range st.changes {
		c := &st.changes[i]
		detail := "put"
		if c.Deleted {
			detail = "deleted"
		}
		s.trace.Record(trace.Hop{
			Service: s.service, Step: trace.Informer, Resource: s.kind.Resource,
			Namespace: c.Namespace, Name: c.Name, UID: c.UID, Revision: c.Revision, Detail: detail,
		})
	}
}

// hopsOfWholeView traces the changes that a whole view brought.
func (s *shared[T]) hopsOfWholeView(revision int64) {
	for i := range s.pending {
		call := &s.pending[i]
		detail, at := "gone from the whole view", revision
		if call.Kind != pending.Delete {
			detail = "whole view"
			if rv, err := strconv.ParseInt(call.Obj.GetResourceVersion(), 10, 64); err == nil {
				at = rv
			}
		}
		s.trace.Record(trace.Hop{
			Service: s.service, Step: trace.Informer, Resource: s.kind.Resource,
			Namespace: call.Obj.GetNamespace(), Name: call.Obj.GetName(), UID: string(call.Obj.GetUID()),
			Revision: at, Detail: detail,
		})
	}
}
