// Package load writes to a deployment like its users, and records in a ledger what was
// acknowledged.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/garboard/garboard/test/outage/ledger"
)

const (
	// callTimeout bounds one write.
	callTimeout = 5 * time.Second
	// valueKey is the key under which an object stores its state.
	valueKey = "state"
	// objects is the maximum number of objects per writer.
	objects = 20
)

// Load writes ConfigMaps while it runs.
type Load struct {
	client    kubernetes.Interface
	namespace string
	ledger    *ledger.Ledger
	pause     time.Duration
	writers   int
	seed      uint64

	mu    sync.Mutex
	found []error
}

// Config is the configuration of a load.
type Config struct {
	// Client reaches the deployment like its users.
	Client kubernetes.Interface
	// Namespace contains the objects; it must exist, and nothing else may use it.
	Namespace string
	// Writers is the number of writers, which together write Rate objects per second.
	Writers, Rate int
	// Seed seeds the random choices.
	Seed uint64
}

// New creates a load.
func New(cfg Config) *Load {
	return &Load{
		client: cfg.Client, namespace: cfg.Namespace, ledger: ledger.New(), writers: cfg.Writers, seed: cfg.Seed,
		pause: time.Second * time.Duration(cfg.Writers) / time.Duration(max(cfg.Rate, 1)),
	}
}

// Run writes until ctx ends.
func (l *Load) Run(ctx context.Context) error {
	var group errgroup.Group
	for i := range l.writers {
		w := &writer{load: l, id: i, random: rand.New(rand.NewPCG(l.seed, uint64(i)))}
		group.Go(func() error { w.run(ctx); return nil })
	}
	return group.Wait()
}

// Counts returns the numbers of responses so far.
func (l *Load) Counts() ledger.Counts { return l.ledger.Counts() }

// Check compares everything with etcd's current content, and also returns the faults found while
// the load ran. Nothing may be running.
func (l *Load) Check(ctx context.Context) error {
	list, err := l.client.CoreV1().ConfigMaps(l.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the written objects: %w", err)
	}
	have := map[string]int{}
	for _, object := range list.Items {
		if value, ok := object.Data[valueKey]; ok {
			if have[object.Name], err = strconv.Atoi(value); err != nil {
				return fmt.Errorf("config map %s holds %q, which the load did not write", object.Name, value)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(append(l.ledger.Compare(have), l.found...)...)
}

func (l *Load) fault(err error) {
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.found = append(l.found, err)
	}
}

// writer writes objects that no other writer writes.
type writer struct {
	load   *Load
	id     int
	random *rand.Rand
	serial int // counts objects and states
	live   []*corev1.ConfigMap
}

func (w *writer) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.write(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(w.random.ExpFloat64() * float64(w.load.pause))):
		}
	}
}

// write makes one random write. Every update and delete names the version that it applies to, so
// that a late one cannot undo a later one.
func (w *writer) write(parent context.Context) {
	// Writes in flight when the load ends are finished.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(parent), callTimeout)
	defer cancel()
	w.serial++
	state, maps := w.serial, w.load.client.CoreV1().ConfigMaps(w.load.namespace)
	luck := w.random.IntN(100)
	if len(w.live) == 0 || (luck < 30 && len(w.live) < objects) {
		object := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("w%d-%d", w.id, w.serial)}, Data: map[string]string{valueKey: strconv.Itoa(state)},
		}
		made, err := maps.Create(ctx, object, metav1.CreateOptions{})
		if w.note(object.Name, state, err) {
			w.live = append(w.live, made)
		}
		return
	}
	i := w.random.IntN(len(w.live))
	object := w.live[i]
	if luck < 80 {
		changed := object.DeepCopy()
		changed.Data[valueKey] = strconv.Itoa(state)
		made, err := maps.Update(ctx, changed, metav1.UpdateOptions{})
		if w.note(object.Name, state, err) {
			w.live[i] = made
		} else {
			w.forget(i)
		}
		return
	}
	w.forget(i)
	err := maps.Delete(ctx, object.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion},
	})
	w.note(object.Name, ledger.Absent, err)
}

// forget stops writing an object; its expected state stays in the ledger.
func (w *writer) forget(i int) { w.live = append(w.live[:i], w.live[i+1:]...) }

// note records a response in the ledger, and reports whether the write was done.
func (w *writer) note(name string, state int, err error) bool {
	book := w.load.ledger
	switch {
	case err == nil:
		book.Done(name, state)
		return true
	case apierrors.IsNotFound(err):
		w.load.fault(book.Refused(name, false))
	case apierrors.IsAlreadyExists(err):
		w.load.fault(book.Refused(name, true))
	case apierrors.IsConflict(err):
		// No one else writes it, so its version is one that was never acknowledged.
		w.load.fault(fmt.Errorf("%s was changed by another writer: %w", name, err))
	default:
		book.Unknown(name, state)
	}
	return false
}
