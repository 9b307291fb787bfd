package registry

import (
	"context"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/store"
)

// Get reads one object, as it is in etcd now.
func (r *Resource) Get(ctx context.Context, namespace, name string) (scheme.Object, error) {
	obj, err := r.store.Get(ctx, r.stored, namespace, name)
	if err != nil {
		return nil, r.rename(err)
	}
	return r.present(obj), nil
}

// List reads the objects that opts selects in a namespace, or in all when it is empty, with
// Kubernetes' meaning of resourceVersion: unset is what etcd holds now, "0" whatever the feed
// has, N at least N (waiting for it a short while) or, when opts says so, exactly N.
func (r *Resource) List(ctx context.Context, namespace string, opts metav1.ListOptions) (runtime.Object, error) {
	if err := validateList(opts, false); err != nil {
		return nil, err
	}
	selected, err := r.selection(namespace, opts)
	if err != nil {
		return nil, err
	}
	revision, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return nil, err
	}
	var page store.Page
	if r.fromFeed(opts, selected) {
		page, err = r.listFeed(ctx, selected, opts, revision)
	} else {
		page, err = r.store.List(ctx, r.stored, store.ListOptions{
			Namespace: namespace, Limit: opts.Limit, Continue: opts.Continue, Revision: revision, Keep: selected.keep(),
		})
	}
	if err != nil {
		return nil, r.rename(err)
	}
	objs := page.Objects
	if r.strategy.FromStored != nil {
		objs = make([]scheme.Object, len(page.Objects))
		for i, obj := range page.Objects {
			objs[i] = r.present(obj)
		}
	}
	list, err := listOf(r.kind, objs)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	listMeta, err := meta.ListAccessor(list)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	listMeta.SetResourceVersion(strconv.FormatInt(page.Revision, 10))
	listMeta.SetContinue(page.Continue)
	listMeta.SetRemainingItemCount(page.Remaining)
	return list, nil
}

// fromFeed says whether a list is answered by the feed: when any version or a least version
// will do, and when a small view of it saves reading a whole namespace from etcd.
func (r *Resource) fromFeed(opts metav1.ListOptions, selected selection) bool {
	if opts.Continue != "" {
		return false
	}
	switch opts.ResourceVersionMatch {
	case metav1.ResourceVersionMatchExact:
		return false
	case metav1.ResourceVersionMatchNotOlderThan:
		return true
	}
	switch opts.ResourceVersion {
	case "0":
		return true
	case "":
		return selected.narrow
	}
	return opts.Limit == 0 // Kubernetes reads exactly N for a list with a limit.
}

func (r *Resource) listFeed(ctx context.Context, selected selection, opts metav1.ListOptions, minimum int64) (store.Page, error) {
	if opts.ResourceVersion == "" {
		var err error
		if minimum, err = r.store.Revision(ctx); err != nil {
			return store.Page{}, err
		}
	}
	objs, revision, err := r.registry.config.Feeds.Of(r.stored).Snapshot(ctx, selected.view, minimum)
	if err != nil {
		return store.Page{}, err
	}
	return store.Page{Objects: choose(selected, objs), Revision: revision}, nil
}

// choose gives the selected ones of objs.
func choose(selected selection, objs []scheme.Object) []scheme.Object {
	if selected.all() {
		return objs
	}
	var chosen []scheme.Object
	for _, obj := range objs {
		if selected.matches(obj) {
			chosen = append(chosen, obj)
		}
	}
	return chosen
}
