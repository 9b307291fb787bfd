// Package load writes to a deployment as its users would, and keeps a ledger of what was
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
	// valueKey is where an object has its state.
	valueKey = "state"
	// objects is how many each writer has at a time.
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

// Config says how much is written.
type Config struct {
	// Client reaches the deployment as its users do.
	Client kubernetes.Interface
	// Namespace is where the objects are; it must exist, and be used by nobody else.
	Namespace string
	// Writers write Rate objects a second, all together.
	Writers, Rate int
	// Seed decides chance.
	Seed uint64
}

// New makes a load.
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

// Counts says what was answered until now.
func (l *Load) Counts() ledger.Counts { return l.ledger.Counts() }

// Check compares everything with what etcd holds now, and tells what was found before too.
// Nothing may be running.
func (l *Load) Check(ctx context.Context) error {
	list, err := l.client.CoreV1().ConfigMaps(l.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("reading what was written: %w", err)
	}
	have := map[string]int{}
	for _, object := range list.Items {
		if value, ok := object.Data[valueKey]; ok {
			if have[object.Name], err = strconv.Atoi(value); err != nil {
				return fmt.Errorf("config map %s holds %q, which nobody wrote", object.Name, value)
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

// writer writes objects that nobody else writes.
type writer struct {
	load   *Load
	id     int
	random *rand.Rand
	serial int // of objects and states
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

// write makes one write by chance. Every change and delete names the version that it is about,
// so that one that comes late cannot undo a later one.
func (w *writer) write(parent context.Context) {
	// What is on its way when the load ends is finished.
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
	err := maps.Delete(ctx, object.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}})
	w.note(object.Name, ledger.Absent, err)
}

// forget takes an object out of those that are written; what it must be stays in the ledger.
func (w *writer) forget(i int) { w.live = append(w.live[:i], w.live[i+1:]...) }

// note writes an answer into the ledger; true says that the write was done.
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
		// Nobody else writes it: its version is none that was answered.
		w.load.fault(fmt.Errorf("%s was changed by somebody else: %w", name, err))
	default:
		book.Unknown(name, state)
	}
	return false
}
