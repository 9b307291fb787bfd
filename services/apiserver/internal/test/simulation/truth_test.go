package simulation_test

import (
	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/informer"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// verify checks that a watch message is a true statement in every view that it is about: nothing
// else changed in the view between the message's prev and its own revision. Informers rely on
// nothing else, and it must hold for any sender at any time.
func (w *world) verify(subject string, data []byte) {
	var m watchv1.Message
	if err := proto.Unmarshal(data, &m); err != nil {
		w.fail("a message at %s: %v", subject, err)
		return
	}
	if w.unnoticed || m.GetRevision() == 0 || m.GetType() == watchv1.Type_TYPE_GAP {
		return
	}
	life := w.etcd.of(m.GetHistory().GetCreated(), m.GetHistory().GetNonce(), m.GetRevision())
	if life == nil {
		return // a scene's own
	}
	holds := func(view informer.View, prev int64) {
		if m.GetType() != watchv1.Type_TYPE_PROGRESS && prev >= m.GetRevision() {
			w.fail("the message %v at %d has the prev %d", m.GetType(), m.GetRevision(), prev)
		}
		if r := life.changed(view, prev, m.GetRevision()); r != 0 {
			w.fail("the message %v at %d says that %+v did not change after %d, but it did at %d", m.GetType(), m.GetRevision(), view, prev, r)
		}
	}
	switch m.GetType() {
	case watchv1.Type_TYPE_PROGRESS:
		holds(informer.View{}, m.GetPrevAll())
		if r := life.changed(informer.View{}, m.GetRevision()-1, m.GetRevision()+1); r != 0 && m.GetPrevAll() < r {
			w.fail("progress to %d says that nothing changed after %d, but something did at %d", m.GetRevision(), m.GetPrevAll(), r)
		}
	case watchv1.Type_TYPE_LEFT:
		holds(informer.View{Scope: m.GetScope()}, m.GetPrevScope())
	default:
		holds(informer.View{}, m.GetPrevAll())
		holds(informer.View{Namespace: m.GetNamespace()}, m.GetPrevNamespace())
		holds(informer.View{Scope: m.GetScope()}, m.GetPrevScope())
	}
}

// changed returns the first revision strictly between two at which a view changed; 0 if there is
// none.
func (l *timeline) changed(view informer.View, after, before int64) int64 {
	for r := max(after, l.first) + 1; r < before; r++ {
		for _, record := range l.at(r).records {
			key := record.Namespace + "/" + record.Name
			was, had := l.at(r - 1).state[key]
			is, has := l.at(r).state[key]
			if had && was.in(view) || has && is.in(view) {
				return r
			}
		}
	}
	return 0
}
