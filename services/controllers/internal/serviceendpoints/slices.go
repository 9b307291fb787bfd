package serviceendpoints

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// sliceDelay is how long a Service waits after a change of its EndpointSlices, so that several changes
// are answered at once, and a foreign writer does not make this one write without a pause (Kubernetes,
// endpointSliceChangeMinSyncDelay).
const sliceDelay = time.Second

// Slices are the EndpointSlices that one controller manages.
type Slices[T scheme.Object] struct {
	informer.SharedInformer[*discoveryv1.EndpointSlice]
	// Client writes them.
	Client client.Resource[*discoveryv1.EndpointSlice]

	manager string
	owners  *controller.Objects[T]
}

// SlicesOf returns the EndpointSlices whose label says that a manager writes them, for owners that have
// the name of the slices' Service. It requests their informer.
func SlicesOf[T scheme.Object](d controller.Deps, manager string, owners *controller.Objects[T]) *Slices[T] {
	s := &Slices[T]{
		SharedInformer: informer.For[*discoveryv1.EndpointSlice](d.Informers),
		Client:         client.Of[*discoveryv1.EndpointSlice](d.Client), manager: manager, owners: owners,
	}
	err := s.AddIndexers(informer.Indexers[*discoveryv1.EndpointSlice]{manager: func(slice *discoveryv1.EndpointSlice) ([]string, error) {
		if key := s.key(slice); key != "" {
			return []string{key}, nil
		}
		return nil, nil
	}})
	if err != nil {
		d.Logger.Error("indexing EndpointSlices by their Services failed", "manager", manager, "err", err)
	}
	return s
}

// key returns the key of the Service of a slice; empty if another manages it.
func (s *Slices[T]) key(slice *discoveryv1.EndpointSlice) string {
	if slice == nil || slice.Labels[discoveryv1.LabelManagedBy] != s.manager || slice.Labels[discoveryv1.LabelServiceName] == "" {
		return ""
	}
	return informer.KeyOf(slice.Namespace, slice.Labels[discoveryv1.LabelServiceName])
}

// Of returns the slices of a Service, sorted by name, without those that are being deleted.
func (s *Slices[T]) Of(key controller.Key) ([]*discoveryv1.EndpointSlice, error) {
	all, err := s.Indexer().ByIndex(s.manager, key.String())
	if err != nil {
		return nil, fmt.Errorf("finding the EndpointSlices of Service %s: %w", key, err)
	}
	var living []*discoveryv1.EndpointSlice
	for _, slice := range all {
		if slice.DeletionTimestamp == nil {
			living = append(living, slice)
		}
	}
	slices.SortFunc(living, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return living, nil
}

// Watch returns a watch that asks for a reconcile of the owner of each slice that changes.
func (s *Slices[T]) Watch() controller.Watch {
	return controller.On(s.SharedInformer, func(q controller.Queue, old, now *discoveryv1.EndpointSlice) {
		if old != nil && now != nil && old.ResourceVersion == now.ResourceVersion {
			return
		}
		before, after := s.key(old), s.key(now)
		s.add(q, after)
		if before != after {
			s.add(q, before)
		}
	})
}

func (s *Slices[T]) add(q controller.Queue, key string) {
	if key == "" {
		return
	}
	if owner, found := s.owners.Indexer().GetByKey(key); found {
		q.AddAfter(owner, sliceDelay)
		return
	}
	namespace, name, _ := strings.Cut(key, "/")
	q.AddName(namespace, name)
}

// Plan is what is to be written.
type Plan struct{ Create, Update, Delete []*discoveryv1.EndpointSlice }

// Reuse turns creations into updates of slices that would be deleted, if they have the same type of
// addresses and may be reused.
func (p *Plan) Reuse(may func(*discoveryv1.EndpointSlice) bool) {
	p.Delete = slices.DeleteFunc(p.Delete, func(gone *discoveryv1.EndpointSlice) bool {
		i := slices.IndexFunc(p.Create, func(slice *discoveryv1.EndpointSlice) bool { return slice.AddressType == gone.AddressType })
		if i < 0 || !may(gone) {
			return false
		}
		slice := p.Create[i]
		slice.Name, slice.ResourceVersion, slice.UID = gone.Name, gone.ResourceVersion, gone.UID
		p.Update = append(p.Update, slice)
		p.Create = slices.Delete(p.Create, i, i+1)
		return true
	})
}

// Write carries out a plan for an object, which errors call what: "Service default/web". If the namespace
// ends, it stops without an error.
func (s *Slices[T]) Write(ctx context.Context, p Plan, what string) error {
	for _, slice := range p.Create {
		if _, err := s.Client.Create(ctx, slice, metav1.CreateOptions{}); err != nil {
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return nil
			}
			return fmt.Errorf("failed to create EndpointSlice for %s: %w", what, err)
		}
	}
	for _, slice := range p.Update {
		if _, err := s.Client.Update(ctx, slice, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("failed to update %s EndpointSlice for %s: %w", slice.Name, what, err)
		}
	}
	return s.Delete(ctx, p.Delete, what)
}

// Delete deletes slices. One that is gone already is no fault.
func (s *Slices[T]) Delete(ctx context.Context, gone []*discoveryv1.EndpointSlice, what string) error {
	var faults []error
	for _, slice := range gone {
		err := s.Client.Delete(ctx, slice.Namespace, slice.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			faults = append(faults, fmt.Errorf("failed to delete %s EndpointSlice for %s: %w", slice.Name, what, err))
		}
	}
	return errors.Join(faults...)
}

// NamePrefix returns what the generated names of a Service's slices begin with.
func NamePrefix(service string) string {
	if prefix := service + "-"; len(apivalidation.NameIsDNSSubdomain(prefix, true)) == 0 {
		return prefix
	}
	return service
}
