package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/test/chaos/history"
)

// The functions of this file write directly to etcd what the API does not allow, or not in one
// revision.

// errNothing reports that there is no object to write to.
var errNothing = errors.New("no such object")

// Kinds returns the kinds that the load writes.
func Kinds(table *scheme.Table) []*scheme.Kind {
	return []*scheme.Kind{scheme.For[*corev1.Pod](table), scheme.For[*corev1.ConfigMap](table), scheme.For[*corev1.Secret](table)}
}

// rewrite changes a pod in etcd.
func (l *Load) rewrite(ctx context.Context, key string, change func(pod *corev1.Pod)) error {
	found, err := l.etcd.Get(ctx, key)
	if err != nil {
		return err
	}
	if len(found.Kvs) == 0 {
		return errNothing
	}
	kind := scheme.For[*corev1.Pod](l.table)
	obj, err := l.table.DecodeStorage(kind, found.Kvs[0].Value)
	if err != nil {
		return err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("%s holds a %T", key, obj)
	}
	change(pod)
	data, err := l.table.EncodeStorage(kind, pod)
	if err != nil {
		return err
	}
	done, err := l.etcd.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", found.Kvs[0].ModRevision)).
		Then(clientv3.OpPut(key, string(data))).Commit()
	if err == nil && !done.Succeeded {
		err = errNothing
	}
	return err
}

func podKey(in, name string) string { return history.Root + "pods/" + in + "/" + name }

// Move moves a pod to another node.
func (l *Load) Move(ctx context.Context, in, name, to string) error {
	return l.rewrite(ctx, podKey(in, name), func(pod *corev1.Pod) { pod.Spec.NodeName = to })
}

// removeMany deletes several objects in one revision, as an expiring lease does.
func (l *Load) removeMany(ctx context.Context, random *rand.Rand) error {
	chosen := map[string]bool{}
	for range 4 {
		chosen[podKey(namespace(random.IntN(Namespaces)), fmt.Sprintf("object-%d", random.IntN(objects)))] = true
	}
	var deletes []clientv3.Op
	for key := range chosen {
		deletes = append(deletes, clientv3.OpDelete(key))
	}
	_, err := l.etcd.Txn(ctx).Then(deletes...).Commit()
	return err
}

// RaiseTo writes objects until etcd's revision exceeds the given one.
func (l *Load) RaiseTo(ctx context.Context, revision int64) error {
	for {
		found, err := l.etcd.Get(ctx, history.Root+"pods/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return fmt.Errorf("raising etcd's revision: %w", err)
		}
		if found.Header.Revision > revision {
			return nil
		}
		if len(found.Kvs) == 0 {
			return fmt.Errorf("raising etcd's revision: %w", errNothing)
		}
		for _, kv := range found.Kvs {
			if err := l.rewrite(ctx, string(kv.Key), func(pod *corev1.Pod) {
				pod.Annotations = map[string]string{"raised": strconv.FormatInt(kv.ModRevision, 10)}
			}); err != nil && !errors.Is(err, errNothing) {
				return fmt.Errorf("raising etcd's revision: %w", err)
			}
		}
	}
}

// EachStored calls each with every object that etcd holds now, with its resource and key.
func (l *Load) EachStored(ctx context.Context, each func(resource, key string, obj scheme.Object)) error {
	for _, kind := range Kinds(l.table) {
		prefix := history.Root + kind.StoragePrefix + "/"
		found, err := l.etcd.Get(ctx, prefix, clientv3.WithPrefix())
		if err != nil {
			return fmt.Errorf("reading %s from etcd: %w", kind.Resource, err)
		}
		for _, kv := range found.Kvs {
			obj, err := l.table.DecodeStorage(kind, kv.Value)
			if err != nil {
				return fmt.Errorf("reading %s from etcd: %w", kv.Key, err)
			}
			obj.SetResourceVersion(strconv.FormatInt(kv.ModRevision, 10))
			each(kind.Resource, strings.TrimPrefix(string(kv.Key), prefix), obj)
		}
	}
	return nil
}

// Recreate deletes pods and recreates them under the same names, bound to another node, so that an
// informer that missed it all sees other objects in their place.
func (l *Load) Recreate(ctx context.Context, random *rand.Rand, count int) error {
	l.running.RLock()
	defer l.running.RUnlock()
	for range count {
		c := l.clients[random.IntN(len(l.clients))]
		in, name := namespace(random.IntN(Namespaces)), fmt.Sprintf("object-%d", random.IntN(objects))
		_ = l.remove(ctx, c, 2, in, name) // it need not exist
		if err := l.create(ctx, c, 2, in, name); err != nil {
			continue // a worker was faster
		}
		_ = l.Bind(ctx, random, in, name)
	}
	return ctx.Err()
}

// large is the size of an object that no message of the bus can hold, but that etcd still accepts.
const large = 1_400 << 10

// Large writes a pod of 1.4 MiB, and changes it several times.
func (l *Load) Large(ctx context.Context, random *rand.Rand, changes int) error {
	l.running.RLock()
	defer l.running.RUnlock()
	c, in, name := l.clients[random.IntN(len(l.clients))], namespace(random.IntN(Namespaces)), fmt.Sprintf("large-%d", l.serial.Add(1))
	about := metav1.ObjectMeta{Namespace: in, Name: name}
	if _, err := client.Of[*corev1.Pod](c).Create(ctx, pod(about, strings.Repeat("x", large)), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("writing a large pod: %w", err)
	}
	for range changes {
		if err := l.change(ctx, c, 2, in, name); err != nil {
			return fmt.Errorf("changing a large pod: %w", err)
		}
	}
	return nil
}

// Storm changes a few pods of the given size in one namespace, as fast as possible.
func (l *Load) Storm(ctx context.Context, random *rand.Rand, changes, size int) error {
	l.running.RLock()
	defer l.running.RUnlock()
	var group errgroup.Group
	for range workers {
		c, name := l.clients[random.IntN(len(l.clients))], fmt.Sprintf("large-%d", l.serial.Add(1))
		group.Go(func() error {
			about := metav1.ObjectMeta{Namespace: namespace(0), Name: name}
			if _, err := client.Of[*corev1.Pod](c).Create(ctx, pod(about, strings.Repeat("x", size)), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("writing a pod of %d bytes: %w", size, err)
			}
			for range changes / workers {
				// Another fault may make an apiserver unavailable.
				_ = l.change(ctx, c, 2, namespace(0), name)
			}
			return nil
		})
	}
	return group.Wait()
}

// RemoveLarge deletes the pods that Large and Storm wrote.
func (l *Load) RemoveLarge(ctx context.Context) error {
	l.running.RLock()
	defer l.running.RUnlock()
	var errs []error
	err := l.EachStored(ctx, func(resource, key string, obj scheme.Object) {
		if resource == "pods" && strings.HasPrefix(obj.GetName(), "large-") {
			errs = append(errs, l.remove(ctx, l.clients[0], 2, obj.GetNamespace(), obj.GetName()))
		}
	})
	return errors.Join(append(errs, err)...)
}

// MoveAll binds all unbound pods, and moves all others to another node.
func (l *Load) MoveAll(ctx context.Context, random *rand.Rand) error {
	l.running.RLock()
	defer l.running.RUnlock()
	for i := range Namespaces {
		for j := range objects {
			in, name := namespace(i), fmt.Sprintf("object-%d", j)
			if err := l.Bind(ctx, random, in, name); err == nil {
				continue
			}
			if err := l.Move(ctx, in, name, node(random.IntN(Nodes))); err != nil && !errors.Is(err, errNothing) {
				return fmt.Errorf("moving a pod: %w", err)
			}
		}
	}
	return nil
}
