package resourcequota

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// forgetful is a source whose statements leave out the creation of one object, as an answer to an ask does if the object
// is gone by then.
type forgetful struct {
	informer.Source
	name string
}

func (s forgetful) Follower(kind *scheme.Kind, view informer.View, sink informer.Sink) informer.Follower {
	return s.Source.Follower(kind, view, forgetfulSink{sink, s.name})
}

type forgetfulSink struct {
	informer.Sink
	name string
}

func (s forgetfulSink) Apply(changes []informer.Change, revision int64) {
	var told []informer.Change
	for _, c := range changes {
		if c.Name == s.name {
			if !c.Deleted {
				continue
			}
			c.Object = nil
		}
		told = append(told, c)
	}
	s.Sink.Apply(told, revision)
}

// TestCameAndWentUnseen frees at once what an object used of which only the deletion is told.
func TestCameAndWentUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		p.Allow("list watch *", "update /resourcequotas/status", controltest.Events)
		p.Declare(func(d controller.Deps) *controller.Spec {
			return New(d, forgetful{listwatch.New(p.Client, p.Config.Logger), "brief"})
		})
		p.Start()
		controltest.Create(p, limit("secrets=3"))
		expect(t, p, "nothing", "secrets=0")
		charge(p, "secrets=2") // One of them is still to come.
		p.Remove(controltest.Create(p, &corev1.Secret{ObjectMeta: meta("brief")}))
		expect(t, p, "came and went", "secrets=1")
		controltest.Create(p, &corev1.Secret{ObjectMeta: meta("late")})
		expect(t, p, "the other one came", "secrets=1")
	})
}
