package listwatch

import (
	"context"
	"fmt"
	"reflect"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/history"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// defaultPageSize is how many objects one list call asks for (client-go, tools/pager).
const defaultPageSize = 500

// whole is a whole view.
type whole struct {
	objects  []informer.Object
	revision int64
	// history is that of which revision is; the zero ID if the server did not say.
	history history.ID
	// paged says that it came in several pages.
	paged bool
}

// version is from when a whole view is to be read: "" for now, "0" for whatever the server has
// at hand, or a revision that it must have reached.
type version string

const (
	now      version = ""
	whenever version = "0"
)

// atLeast is the version at or after a revision; now when 0.
func atLeast(revision int64) version {
	if revision <= 0 {
		return now
	}
	return version(strconv.FormatInt(revision, 10))
}

func (v version) isRevision() bool { return v != now && v != whenever }

// reached says whether a view at a revision is what was asked for: nil, or what is wrong.
func (v version) reached(revision int64) error {
	if !v.isRevision() {
		return nil
	}
	if minimum, err := strconv.ParseInt(string(v), 10, 64); err != nil || revision < minimum {
		return fmt.Errorf("asked for revision %s or later, got %d", v, revision)
	}
	return nil
}

func (v version) set(opts *metav1.ListOptions) {
	opts.ResourceVersion = string(v)
	if v.isRevision() {
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
}

// list reads a whole view in pages of limit; in one when 0.
func list(ctx context.Context, c client.Interface, kind *scheme.Kind, view informer.View, from version, limit int64) (whole, error) {
	read, err := pages(ctx, c, kind, view, from, limit)
	if read.paged && apierrors.IsResourceExpired(err) {
		// The pages were read too slowly for the server's history; one page needs none.
		read, err = pages(ctx, c, kind, view, from, 0)
	}
	if err != nil {
		return whole{}, err
	}
	if err := from.reached(read.revision); err != nil {
		return whole{}, fmt.Errorf("listing %s: %w", kind.GroupResource(), err)
	}
	return read, nil
}

// pages reads a whole view. With an error it says whether it came to a second page.
func pages(ctx context.Context, c client.Interface, kind *scheme.Kind, view informer.View, from version, limit int64) (whole, error) {
	opts, err := options(kind, view)
	if err != nil {
		return whole{}, err
	}
	from.set(&opts)
	opts.Limit = limit
	var read whole
	for first := true; ; first = false {
		page := kind.NewList()
		var of history.ID
		err := c.Do(ctx, client.Call{Verb: "list", Kind: kind, Namespace: view.Namespace, Options: &opts, History: &of}, page)
		if err != nil {
			return read, fmt.Errorf("listing %s: %w", kind.GroupResource(), err)
		}
		switch {
		case first || of == history.ID{}:
			read.history = of
		case read.history != history.ID{} && of != read.history:
			return read, fmt.Errorf("listing %s: a page is of history %v, and one before it of %v: %w", kind.GroupResource(), of, read.history, errHistories)
		}
		err = meta.EachListItem(page, func(item runtime.Object) error {
			obj, err := object(kind, item)
			if err == nil {
				read.objects = append(read.objects, obj)
			}
			return err
		})
		if err != nil {
			return read, fmt.Errorf("reading a list of %s: %w", kind.GroupResource(), err)
		}
		about, err := meta.ListAccessor(page)
		if err != nil {
			return read, fmt.Errorf("reading a list of %s: %w", kind.GroupResource(), err)
		}
		if about.GetContinue() != "" {
			read.paged = true
			opts.Continue, opts.ResourceVersion, opts.ResourceVersionMatch = about.GetContinue(), "", ""
			continue
		}
		read.revision, err = strconv.ParseInt(about.GetResourceVersion(), 10, 64)
		if err != nil || read.revision <= 0 {
			return read, fmt.Errorf("reading a list of %s: its resourceVersion %q is no revision", kind.GroupResource(), about.GetResourceVersion())
		}
		return read, nil
	}
}

// object is an item of a list or watch with its kind set, which lists leave out.
func object(kind *scheme.Kind, item runtime.Object) (informer.Object, error) {
	obj, ok := item.(informer.Object)
	if want := reflect.TypeOf(kind.New()); !ok || reflect.TypeOf(item) != want {
		return nil, fmt.Errorf("a %T is no %v", item, want)
	}
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	return obj, nil
}

// revisionOf is an object's resourceVersion.
func revisionOf(kind *scheme.Kind, obj informer.Object) (int64, error) {
	revision, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil || revision <= 0 {
		return 0, fmt.Errorf("the resourceVersion %q of %s %s/%s is no revision",
			obj.GetResourceVersion(), kind.GroupResource(), obj.GetNamespace(), obj.GetName())
	}
	return revision, nil
}
