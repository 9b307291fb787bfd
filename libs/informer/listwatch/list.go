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
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// defaultPageSize is how many objects one list call asks for (client-go, tools/pager).
const defaultPageSize = 500

// whole is a whole view.
type whole struct {
	objects  []informer.Object
	revision int64
	// history is the history of revision; the zero ID if the server named none.
	history fabric.History
	// paged means that the view came in several pages.
	paged bool
}

// version is the oldest acceptable version of a whole view: "" for now, "0" for whatever the server
// has cached, or a revision that the view must have reached.
type version string

const (
	now      version = ""
	whenever version = "0"
)

// atLeast returns the version for a revision or later; now if the revision is 0.
func atLeast(revision int64) version {
	if revision <= 0 {
		return now
	}
	return version(strconv.FormatInt(revision, 10))
}

func (v version) isRevision() bool { return v != now && v != whenever }

// reached returns nil if a view at a revision is as new as requested, otherwise an error.
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

// list reads a whole view in pages of limit objects; in one page if limit is 0.
func list(ctx context.Context, c client.Interface, kind *scheme.Kind, view informer.View, from version, limit int64) (whole, error) {
	read, err := pages(ctx, c, kind, view, from, limit)
	if read.paged && apierrors.IsResourceExpired(err) {
		// Reading the pages took longer than the server keeps history; a single page needs no
		// history.
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

// pages reads a whole view. With an error, read.paged still tells whether there was a second page.
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
		var of fabric.History
		err := c.Do(ctx, client.Call{Verb: "list", Kind: kind, Namespace: view.Namespace, Options: &opts, History: &of}, page)
		if err != nil {
			return read, fmt.Errorf("listing %s: %w", kind.GroupResource(), err)
		}
		switch {
		case first || of == fabric.History{}:
			read.history = of
		case read.history != fabric.History{} && of != read.history:
			return read, fmt.Errorf("listing %s: a page is of history %v, an earlier one of %v: %w",
				kind.GroupResource(), of, read.history, errHistories)
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
			return read, fmt.Errorf("reading a list of %s: its resourceVersion %q is not a revision",
				kind.GroupResource(), about.GetResourceVersion())
		}
		return read, nil
	}
}

// object returns an item of a list or watch with its kind set, which lists leave out.
func object(kind *scheme.Kind, item runtime.Object) (informer.Object, error) {
	obj, ok := item.(informer.Object)
	if want := reflect.TypeOf(kind.New()); !ok || reflect.TypeOf(item) != want {
		return nil, fmt.Errorf("got a %T, want a %v", item, want)
	}
	obj.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
	return obj, nil
}

// revisionOf returns an object's resourceVersion as a revision.
func revisionOf(kind *scheme.Kind, obj informer.Object) (int64, error) {
	revision, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil || revision <= 0 {
		return 0, fmt.Errorf("the resourceVersion %q of %s %s/%s is not a revision",
			obj.GetResourceVersion(), kind.GroupResource(), obj.GetNamespace(), obj.GetName())
	}
	return revision, nil
}
