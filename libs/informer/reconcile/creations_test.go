package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/scheme"
)

// unreliable is a client whose creations fail in a way of the test.
type unreliable struct {
	client.Interface
	fail func(create func() error) error
	// unreachable makes reads fail, too.
	unreachable atomic.Bool
}

func (u *unreliable) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	switch {
	case call.Verb == "create" && u.fail != nil:
		return u.fail(func() error { return u.Interface.Do(ctx, call, into) })
	case u.unreachable.Load():
		return errors.New("connection refused")
	}
	return u.Interface.Do(ctx, call, into)
}

var errCut = errors.New("connection reset by peer")

// TestACreationOfUnknownOutcomeIsNotRepeatedTwice checks that a controller ends with one object though
// the answer to its first creation is lost, or the creation takes effect only after the second.
func TestACreationOfUnknownOutcomeIsNotRepeatedTwice(t *testing.T) {
	maps := schema.GroupResource{Resource: "configmaps"}
	executed := func(answer error) func(func() error) error {
		first := true
		return func(create func() error) error {
			err := create()
			if first {
				first, err = false, answer
			}
			return err
		}
	}
	for _, tt := range []struct {
		name  string
		fail  func() func(func() error) error
		tries int32
	}{
		{"executed, connection cut", func() func(func() error) error { return executed(errCut) }, 1},
		{"executed, internal error", func() func(func() error) error {
			return executed(apierrors.NewInternalError(errors.New("etcdserver: leader changed")))
		}, 1},
		{"executed, timeout", func() func(func() error) error {
			return executed(apierrors.NewTimeoutError("the server was too slow", 1))
		}, 1},
		{"not executed", func() func(func() error) error {
			first := true
			return func(create func() error) error {
				if first {
					first = false
					return errCut
				}
				return create()
			}
		}, 2},
		{"executed at the time of the next one", func() func(func() error) error {
			var late func() error
			return func(create func() error) error {
				if late == nil {
					late = create
					return errCut
				}
				return errors.Join(late(), create())
			}
		}, 2},
		{"refused", func() func(func() error) error {
			first := true
			return func(create func() error) error {
				if first {
					first = false
					return apierrors.NewForbidden(maps, "", errors.New("exceeded quota"))
				}
				return create()
			}
		}, 2},
		{"the generated name is taken", func() func(func() error) error {
			first := true
			return func(create func() error) error {
				if first {
					first = false
					return apierrors.NewAlreadyExists(maps, "m-12345")
				}
				return create()
			}
		}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane{}
				var tries atomic.Int32
				fail := tt.fail()
				p.writes = func(api client.Interface) client.Interface {
					return &unreliable{Interface: api, fail: func(create func() error) error {
						tries.Add(1)
						return fail(create)
					}}
				}
				c := p.run(t, reconcile.Config[string]{}, true)
				time.Sleep(time.Second)
				p.delay.Store(int64(3 * time.Second)) // longer than the first retries take
				c.Enqueue("a")
				time.Sleep(time.Minute)
				if got := p.count(t); got != 1 {
					t.Errorf("%d objects were made, want 1", got)
				}
				if got := tries.Load(); got != tt.tries {
					t.Errorf("%d creations were sent, want %d", got, tt.tries)
				}
			})
		})
	}
}

// TestAnUnknownOutcomeIsAskedForUntilThereIsAnAnswer checks that nothing is reconciled for a key while
// nobody can tell whether its last creation took effect.
func TestAnUnknownOutcomeIsAskedForUntilThereIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p plane
		u := &unreliable{}
		cut := true
		u.fail = func(create func() error) error {
			err := create()
			if cut {
				cut, err = false, errCut
			}
			return err
		}
		p.writes = func(api client.Interface) client.Interface {
			u.Interface = api
			return u
		}
		c := p.run(t, reconcile.Config[string]{}, true)
		time.Sleep(time.Second)
		u.unreachable.Store(true)
		c.Enqueue("a")
		time.Sleep(20 * time.Second)
		if got := len(p.reconciled()["a"]); got != 1 {
			t.Errorf("%d reconciles while the outcome was unknown, want 1", got)
		}
		u.unreachable.Store(false)
		time.Sleep(time.Minute)
		if got := len(p.reconciled()["a"]); got != 2 {
			t.Errorf("%d reconciles once it was known, want 2", got)
		}
		if got := p.count(t); got != 1 {
			t.Errorf("%d objects were made, want 1", got)
		}
	})
}

// TestDoubtsAreOfOneOwnerAndEnd checks that a name in doubt is used only for an object of the same
// controller, and not when more than five minutes have passed.
func TestDoubtsAreOfOneOwnerAndEnd(t *testing.T) {
	for _, tt := range []struct {
		owner string
		pause time.Duration
		same  bool
	}{{"one", 0, true}, {"another", 0, false}, {"one", 6 * time.Minute, false}} {
		t.Run(fmt.Sprintf("%s after %v", tt.owner, tt.pause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := fake.New(scheme.New())
				var names []string
				u := &unreliable{Interface: api}
				sent := reconcile.Recording(noting{u, &names})
				u.fail = func(func() error) error { return errCut }
				write := client.Of[*corev1.ConfigMap](sent)
				yes := true
				owners := []string{"one", tt.owner}
				var caches reconcile.Caches
				c := reconcile.New(reconcile.Config[string]{
					Name: "test", Logger: quiet, Reads: &caches,
					Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
						i := len(names)
						if i == len(owners) {
							return reconcile.Result{}, nil
						}
						_, err := write.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
							Namespace: "a", GenerateName: "m-",
							OwnerReferences: []metav1.OwnerReference{{UID: types.UID(owners[i]), Controller: &yes}},
						}}, metav1.CreateOptions{})
						if err == nil {
							t.Error("the creation succeeded")
						}
						return reconcile.Result{RequeueAfter: tt.pause + time.Millisecond}, nil
					},
				})
				c.Enqueue("k")
				end := start(t, c)
				time.Sleep(time.Hour)
				end()
				if len(names) != 2 {
					t.Fatalf("sent were creations of %v, want two", names)
				}
				if got := names[0] == names[1]; got != tt.same {
					t.Errorf("sent were creations of %v, want the same name: %v", names, tt.same)
				}
			})
		})
	}
}

// noting keeps the names of the objects whose creation is sent.
type noting struct {
	client.Interface
	names *[]string
}

func (n noting) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	if body, ok := call.Body.(metav1.Object); ok && call.Verb == "create" {
		*n.names = append(*n.names, body.GetName())
	}
	return n.Interface.Do(ctx, call, into)
}
