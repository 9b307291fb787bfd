package registry

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry/listing"
	"github.com/garboard/garboard/services/apiserver/internal/registry/selection"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// Get reads one object from etcd.
func (r *Resource) Get(ctx context.Context, namespace, name string) (scheme.Object, error) {
	obj, err := r.store.Get(ctx, r.stored, namespace, name)
	if err != nil {
		return nil, r.rename(err)
	}
	return r.present(obj)
}

// GetAt is Get with Kubernetes' meaning of a resourceVersion: unset means the current state of
// etcd, "0" whatever the feed has, and N at least N, with a wait of up to 3 s.
func (r *Resource) GetAt(ctx context.Context, namespace, name, version string) (scheme.Object, error) {
	if version == "" {
		return r.Get(ctx, namespace, name)
	}
	minimum, invalid := listing.ParseVersion(version)
	if invalid != nil {
		return nil, listing.InvalidVersion(invalid)
	}
	obj, err := r.feed().Get(ctx, namespace, name, minimum)
	switch {
	case errors.Is(err, feed.ErrUnreadable) || apierrors.IsTooManyRequests(err):
		// etcd names what is wrong with the value, or is readable while the feed is not.
		return r.Get(ctx, namespace, name)
	case err != nil:
		return nil, r.rename(err)
	case obj == nil:
		return nil, apierrors.NewNotFound(r.kind.GroupResource(), name)
	}
	return r.present(obj)
}

func (r *Resource) feed() *feed.Feed { return r.registry.config.Feeds.Of(r.stored) }

// Listing is the contents of a list before its conversion to a list object.
type Listing struct {
	// Items are in the order of namespace and name. Their objects are of the requested kind.
	Items []feed.Item
	// Revision is the etcd revision at which the list was read, and History the history it belongs
	// to; the zero History if etcd has none yet.
	Revision int64
	History  fabric.History
	// Continue is the token of the next page; empty at the end.
	Continue string
	// Remaining is the number of objects that follow; nil at the end, or if unknown.
	Remaining *int64
	// Unreadable are the keys of values that are left out because they cannot be read.
	Unreadable []string
}

// Meta returns the list's metadata.
func (l *Listing) Meta() metav1.ListMeta {
	return metav1.ListMeta{
		ResourceVersion: strconv.FormatInt(l.Revision, 10), Continue: l.Continue, RemainingItemCount: l.Remaining,
	}
}

// Objects returns the objects of the items.
func (l *Listing) Objects() []scheme.Object {
	objs := make([]scheme.Object, len(l.Items))
	for i, item := range l.Items {
		objs[i] = item.Object
	}
	return objs
}

// List is Read with the result as the kind's list.
func (r *Resource) List(ctx context.Context, namespace string, opts metav1.ListOptions) (runtime.Object, error) {
	listing, err := r.Read(ctx, namespace, opts)
	if err != nil {
		return nil, err
	}
	return r.ListOf(listing)
}

// ListOf converts a listing to the kind's list.
func (r *Resource) ListOf(found *Listing) (runtime.Object, error) {
	list, err := listing.Of(r.kind, found.Objects())
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	listMeta, err := meta.ListAccessor(list)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	with := found.Meta()
	listMeta.SetResourceVersion(with.ResourceVersion)
	listMeta.SetContinue(with.Continue)
	listMeta.SetRemainingItemCount(with.RemainingItemCount)
	return list, nil
}

// Read reads the objects that opts selects in a namespace, or in all if it is empty, with
// Kubernetes' meaning of resourceVersion and resourceVersionMatch ("API Concepts"):
//
//   - unset: the current state of etcd, from the feed once it has caught up;
//   - "0": whatever the feed has, and all of it, whatever the limit;
//   - N with Exact, or with a limit and no match: exactly N, from etcd's past;
//   - N otherwise: at least N, from the feed, with a wait of up to 3 s;
//   - a continue token: the state that the first page showed, from the feed if nothing changed since,
//     else from etcd's past. In both cases, once etcd has compacted it: 410 with a token that
//     continues the list with the current state.
func (r *Resource) Read(ctx context.Context, namespace string, opts metav1.ListOptions) (*Listing, error) {
	if err := listing.Validate(opts, false); err != nil {
		return nil, err
	}
	selected, err := selection.Parse(r.strategy, namespace, opts)
	if err != nil {
		return nil, err
	}
	listing, err := r.read(ctx, namespace, opts, selected)
	if err != nil {
		return nil, r.rename(err)
	}
	if err := r.presentAll(listing); err != nil {
		return nil, err
	}
	return listing, nil
}

func (r *Resource) read(ctx context.Context, namespace string, opts metav1.ListOptions, selected selection.Selection) (*Listing, error) {
	limit := max(opts.Limit, 0)
	if opts.Continue != "" {
		from, revision, err := r.store.ContinueFrom(r.stored, namespace, opts.Continue)
		if err != nil {
			return nil, err
		}
		if strings.Trim(opts.ResourceVersion, "0") != "" {
			return nil, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
		}
		past := store.ListOptions{Namespace: namespace, Limit: limit, Continue: opts.Continue, Keep: selected.Keep()}
		if revision > 0 {
			// A token ends with the compaction of its revision, even if nothing has changed since: clients
			// wait for that, and every apiserver must say the same.
			if reading, ok := r.feed().ReadAt(selected.View(), revision); ok && r.store.Retains(ctx, r.stored, revision) {
				return r.page(selected, reading, namespace, from, limit)
			}
			return r.readPast(ctx, past)
		}
		return r.readNow(ctx, selected, from, past)
	}
	revision, invalid := listing.ParseVersion(opts.ResourceVersion)
	if invalid != nil {
		return nil, listing.InvalidVersion(invalid)
	}
	past := store.ListOptions{Namespace: namespace, Limit: limit, Revision: revision, Keep: selected.Keep()}
	switch {
	case opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact,
		opts.ResourceVersionMatch == "" && limit > 0 && revision > 0:
		return r.readPast(ctx, past)
	case opts.ResourceVersion == "":
		return r.readNow(ctx, selected, "", past)
	case revision == 0:
		limit = 0
	}
	reading, err := r.feed().Read(ctx, selected.View(), revision)
	if err != nil {
		return nil, err
	}
	return r.page(selected, reading, namespace, "", limit)
}

// readPast reads from etcd.
func (r *Resource) readPast(ctx context.Context, opts store.ListOptions) (*Listing, error) {
	page, err := r.store.List(ctx, r.stored, opts)
	if err != nil {
		return nil, err
	}
	listing := &Listing{
		Items: make([]feed.Item, len(page.Objects)), Revision: page.Revision, Continue: page.Continue, Remaining: page.Remaining,
		Unreadable: page.Unreadable, History: page.History,
	}
	for i, obj := range page.Objects {
		listing.Items[i].Object = obj
	}
	return listing, nil
}

// readNow reads the current state of etcd, beginning with a key: from the feed once it has heard of
// etcd's current revision, or from etcd if the feed does not in time.
func (r *Resource) readNow(ctx context.Context, selected selection.Selection, from string, opts store.ListOptions) (*Listing, error) {
	now, err := r.store.Revision(ctx)
	if err != nil {
		return nil, err
	}
	reading, err := r.feed().Read(ctx, selected.View(), now)
	if err == nil {
		r.feed().CountConsistentRead(true, false)
		return r.page(selected, reading, opts.Namespace, from, opts.Limit)
	}
	if ctx.Err() != nil || !apierrors.IsTooManyRequests(err) && !apierrors.IsTimeout(err) {
		r.feed().CountConsistentRead(false, false)
		return nil, err
	}
	listing, err := r.readPast(ctx, opts)
	r.feed().CountConsistentRead(err == nil, true)
	return listing, err
}

// page returns the selected items of a reading, beginning with a key: at most limit of them, unless
// limit is 0.
func (r *Resource) page(selected selection.Selection, reading feed.Reading, namespace, from string, limit int64) (*Listing, error) {
	items := reading.Items
	if from != "" {
		first, _ := slices.BinarySearchFunc(items, from, func(i feed.Item, from string) int { return strings.Compare(i.Key, from) })
		items = items[first:]
	}
	listing := &Listing{Revision: reading.Revision, History: reading.History, Unreadable: reading.Unreadable}
	if selected.All() && (limit == 0 || int64(len(items)) <= limit) {
		listing.Items = items
		return listing, nil
	}
	for n, item := range items {
		if !selected.Matches(item.Object) {
			continue
		}
		listing.Items = append(listing.Items, item)
		rest := int64(len(items) - n - 1)
		if limit == 0 || int64(len(listing.Items)) < limit || rest == 0 {
			continue
		}
		token, err := r.store.ContinueAfter(r.stored, namespace, item.Object.GetNamespace(), item.Object.GetName(), reading.Revision)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		listing.Continue = token
		if selected.All() {
			listing.Remaining = &rest
		}
		return listing, nil
	}
	return listing, nil
}
