// Package listwatch follows views over HTTP by list and watch, as client-go's reflector
// does (tools/cache.Reflector): an informer's source for programs without the bus, and the
// fall-back of package follow.
package listwatch

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// pageSize is how many objects one list call asks for.
const pageSize = 500

// nodeNameField selects pods by their scope.
const nodeNameField = "spec.nodeName"

// Source makes followers that list and watch.
type Source struct {
	client client.Interface
	logger *slog.Logger
}

var _ informer.Source = (*Source)(nil)

// New makes a source over c. logger may be nil.
func New(c client.Interface, logger *slog.Logger) *Source {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Source{client: c, logger: logger}
}

// Follower follows a view, beginning with a list.
func (s *Source) Follower(kind *scheme.Kind, view informer.View, sink informer.Sink) informer.Follower {
	return s.Resume(kind, view, sink, 0)
}

// Resume is Follower for a sink that holds the view at revision: it goes on with a watch,
// unless revision is 0.
func (s *Source) Resume(kind *scheme.Kind, view informer.View, sink informer.Sink, revision int64) informer.Follower {
	return &follower{
		client: s.client, kind: kind, view: view, sink: sink, position: revision,
		logger:   s.logger.With("resource", kind.GroupResource().String()),
		required: make(chan struct{}, 1),
	}
}

// List reads a whole view. With a minimum it is not older than that revision, but perhaps
// older than now; without one it is as new as etcd when it was asked.
func (s *Source) List(ctx context.Context, kind *scheme.Kind, view informer.View, minimum int64) (objects []informer.Object, revision int64, err error) {
	return list(ctx, s.client, kind, view, minimum)
}

func list(ctx context.Context, c client.Interface, kind *scheme.Kind, view informer.View, minimum int64) ([]informer.Object, int64, error) {
	opts, err := options(kind, view)
	if err != nil {
		return nil, 0, err
	}
	opts.Limit = pageSize
	if minimum > 0 {
		opts.ResourceVersion = strconv.FormatInt(minimum, 10)
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	var objects []informer.Object
	for {
		page := kind.NewList()
		err := c.Do(ctx, client.Call{Verb: "list", Kind: kind, Namespace: view.Namespace, Options: &opts}, page)
		if err != nil {
			return nil, 0, fmt.Errorf("listing %s: %w", kind.GroupResource(), err)
		}
		err = meta.EachListItem(page, func(item runtime.Object) error {
			obj, err := object(kind, item)
			if err == nil {
				objects = append(objects, obj)
			}
			return err
		})
		if err != nil {
			return nil, 0, fmt.Errorf("reading a list of %s: %w", kind.GroupResource(), err)
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return nil, 0, fmt.Errorf("reading a list of %s: %w", kind.GroupResource(), err)
		}
		if about.GetContinue() != "" {
			opts.Continue, opts.ResourceVersion, opts.ResourceVersionMatch = about.GetContinue(), "", ""
			continue
		}
		revision, err := strconv.ParseInt(about.GetResourceVersion(), 10, 64)
		if err != nil || revision <= 0 {
			return nil, 0, fmt.Errorf("reading a list of %s: its resourceVersion %q is no revision", kind.GroupResource(), about.GetResourceVersion())
		}
		if revision < minimum {
			return nil, 0, fmt.Errorf("listing %s: asked for revision %d or later, got %d", kind.GroupResource(), minimum, revision)
		}
		return objects, revision, nil
	}
}

// options selects a view; an error if the kind has no such view.
func options(kind *scheme.Kind, view informer.View) (metav1.ListOptions, error) {
	var opts metav1.ListOptions
	if view.Namespace != "" && !kind.Namespaced {
		return opts, fmt.Errorf("following %s in namespace %s: the resource has no namespaces", kind.GroupResource(), view.Namespace)
	}
	var terms []fields.Selector
	if view.Name != "" {
		if kind.Namespaced && view.Namespace == "" {
			return opts, fmt.Errorf("following %s %s: its namespace is missing", kind.GroupResource(), view.Name)
		}
		terms = append(terms, fields.OneTermEqualSelector("metadata.name", view.Name))
	}
	if view.Scope != "" {
		node := view.Scope
		if node == scheme.Unscoped {
			node = ""
		}
		switch {
		case kind.Scope != nil:
			terms = append(terms, fields.OneTermEqualSelector(nodeNameField, node))
		case node != "":
			return opts, fmt.Errorf("following %s of %s: the resource has no scopes", kind.GroupResource(), node)
		}
	}
	if len(terms) > 0 {
		opts.FieldSelector = fields.AndSelectors(terms...).String()
	}
	return opts, nil
}

// object is an item of a list or watch with its kind set, which lists leave out.
func object(kind *scheme.Kind, item runtime.Object) (informer.Object, error) {
	obj, ok := item.(informer.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", item)
	}
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	return obj, nil
}

// Check says whether a kind has a view.
func Check(kind *scheme.Kind, view informer.View) error {
	_, err := options(kind, view)
	return err
}
