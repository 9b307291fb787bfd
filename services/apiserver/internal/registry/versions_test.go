package registry_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// book is a sequence of config maps in the namespace "default". The tables of this file name its
// revisions:
//
//	past     a, b
//	present  a (changed), b, c
//	now      etcd's revision, which is above that of any config map
//	old      compacted: before all config maps
//	future   has not come yet
type book struct {
	*world
	maps                       *registry.Resource
	old, past, present, future string
}

// newBook creates a book whose reads wait for the future for at most patience.
func newBook(t *testing.T, patience time.Duration) *book {
	t.Helper()
	// The window is so short that it holds only the last changes.
	w := newWorld(t, func(c *registrytest.Config) { c.Feed = feed.Config{WindowEvents: 3, Patience: patience} })
	b := &book{world: w, maps: resource[*corev1.ConfigMap](w), future: "1000000"}
	b.old = create(w, "kube-system", newConfigMap("first")).ResourceVersion
	create(w, "default", newConfigMap("a"))
	b.past = create(w, "default", newConfigMap("b")).ResourceVersion
	create(w, "default", newConfigMap("c"))
	if _, err := update(w, "default", "a", "", func(c *corev1.ConfigMap) {
		c.Data["a"] = "changed"
		c.Labels = map[string]string{"changed": "yes"}
	}); err != nil {
		t.Fatal(err)
	}
	b.present = get[*corev1.ConfigMap](w, "default", "a").ResourceVersion
	w.Etcd.Put(t, map[string]string{"/elsewhere": "x"})
	// Now the feed's answer to "any version" is known.
	if err := b.maps.Feed().WaitFor(t.Context(), number(t, b.present)); err != nil {
		t.Fatal(err)
	}
	return b
}

// now returns etcd's revision.
func (b *book) now() string {
	b.T.Helper()
	revision, err := b.Store.Revision(b.T.Context())
	if err != nil {
		b.T.Fatal(err)
	}
	return strconv.FormatInt(revision, 10)
}

// named returns the revision for a name in the tables.
func (b *book) named(name string) string {
	switch name {
	case "old":
		return b.old
	case "past":
		return b.past
	case "present":
		return b.present
	case "future":
		return b.future
	}
	return name
}

func number(t testing.TB, version string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// told returns an error as a client sees it.
func told(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fmt.Sprint(err)
	}
	s := status.Status()
	text := fmt.Sprintf("%d %s: %s", s.Code, s.Reason, s.Message)
	if s.Details != nil {
		for _, cause := range s.Details.Causes {
			if cause.Type == metav1.CauseTypeResourceVersionTooLarge {
				text += fmt.Sprintf(" [%s: %s, retry after %d]", cause.Type, cause.Message, s.Details.RetryAfterSeconds)
			}
		}
	}
	return text
}

const (
	withoutVersion = `422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided`
	exactAny       = `422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"`
	withContinue   = `422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided`
	noNumber       = `400 BadRequest: invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`
	tooOld         = `410 Expired: The resourceVersion for the provided list is too old.`
	inconsistent   = `410 Expired: The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.`
	versionTooHigh = `504 Timeout: Timeout: Too large resource version: 1000000, current: NOW [ResourceVersionTooLarge: Too large resource version, retry after 1]`
)

// TestListByVersion covers the table "Semantics for get and list" for lists: limit, match and
// version, and the result.
func TestListByVersion(t *testing.T) {
	t.Parallel()
	const (
		exact, notOlder = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan
		all             = "a' b c"
	)
	b := newBook(t, feed.DefaultPatience)
	b.Etcd.Compact(t, number(t, b.old)+1)
	for _, c := range []struct {
		limit   int64
		match   metav1.ResourceVersionMatch
		version string
		labels  string
		// items are the listed items, with a' for the changed a; or the error.
		items string
		// at is the list's version: "now", "any" for one that the feed has, or a name.
		at string
		// rest is remainingItemCount; -1 if there is a continue token without it.
		rest int64
	}{
		// Most recent.
		{limit: 0, match: "", version: "", items: all, at: "now"},
		{limit: 2, match: "", version: "", items: "a' b", at: "now", rest: 1},
		{limit: 3, match: "", version: "", items: all, at: "now"},
		{limit: 1, match: "", version: "", labels: "!changed", items: "b", at: "now", rest: -1},
		{limit: 0, match: "", version: "", labels: "changed=yes", items: "a'", at: "now"},
		// Any.
		{limit: 0, match: "", version: "0", items: all, at: "any"},
		{limit: 1, match: "", version: "0", items: all, at: "any"},
		{limit: 0, match: notOlder, version: "0", items: all, at: "any"},
		{limit: 1, match: notOlder, version: "0", items: all, at: "any"},
		// Not older than.
		{limit: 0, match: "", version: "past", items: all, at: "any"},
		{limit: 0, match: "", version: "old", items: all, at: "any"},
		{limit: 0, match: notOlder, version: "past", items: all, at: "any"},
		{limit: 0, match: notOlder, version: "old", items: all, at: "any"},
		{limit: 2, match: notOlder, version: "past", items: "a' b", at: "any", rest: 1},
		{limit: 0, match: "", version: "future", items: versionTooHigh},
		{limit: 0, match: notOlder, version: "future", items: versionTooHigh},
		{limit: 2, match: notOlder, version: "future", items: versionTooHigh},
		// Exact.
		{limit: 1, match: "", version: "past", items: "a", at: "past", rest: 1},
		{limit: 9, match: "", version: "past", items: "a b", at: "past"},
		{limit: 0, match: exact, version: "past", items: "a b", at: "past"},
		{limit: 1, match: exact, version: "past", items: "a", at: "past", rest: 1},
		{limit: 0, match: exact, version: "past", labels: "changed", items: "", at: "past"},
		{limit: 0, match: exact, version: "present", items: all, at: "present"},
		{limit: 0, match: exact, version: "old", items: tooOld},
		{limit: 1, match: exact, version: "old", items: tooOld},
		{limit: 1, match: "", version: "old", items: tooOld},
		{limit: 0, match: exact, version: "future", items: versionTooHigh},
		{limit: 1, match: "", version: "future", items: versionTooHigh},
		// Invalid.
		{limit: 0, match: exact, version: "", items: withoutVersion},
		{limit: 1, match: exact, version: "", items: withoutVersion},
		{limit: 0, match: notOlder, version: "", items: withoutVersion},
		{limit: 1, match: notOlder, version: "", items: withoutVersion},
		{limit: 0, match: exact, version: "0", items: exactAny},
		{limit: 1, match: exact, version: "0", items: exactAny},
		{limit: 0, match: "", version: "x", items: noNumber},
		{limit: 1, match: "", version: "x", items: noNumber},
		{limit: 0, match: exact, version: "x", items: noNumber},
		{limit: 0, match: "Close", version: "past", items: `422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Unsupported value: "Close": supported values: "Exact", "NotOlderThan", ""`},
	} {
		t.Run(fmt.Sprintf("limit %d, match %q, version %q, labels %q", c.limit, c.match, c.version, c.labels), func(t *testing.T) {
			list, err := b.list(metav1.ListOptions{
				Limit: c.limit, ResourceVersionMatch: c.match, ResourceVersion: b.named(c.version), LabelSelector: c.labels,
			})
			if err != nil {
				if got := strings.ReplaceAll(told(err), "current: "+b.now(), "current: NOW"); got != c.items {
					t.Errorf("got  %s\nwant %s", got, c.items)
				}
				return
			}
			if got := contents(list); got != c.items {
				t.Errorf("listed %q, want %q", got, c.items)
			}
			b.checkVersion(t, list, c.at)
			if (list.Continue != "") != (c.rest != 0) {
				t.Errorf("the token is %q", list.Continue)
			}
			if (list.RemainingItemCount != nil) != (c.rest > 0) || list.RemainingItemCount != nil && *list.RemainingItemCount != c.rest {
				t.Errorf("%v remain, want %d", list.RemainingItemCount, c.rest)
			}
		})
	}
}

func (b *book) list(opts metav1.ListOptions) (*corev1.ConfigMapList, error) {
	obj, err := b.maps.List(b.T.Context(), "default", opts)
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.ConfigMapList), nil
}

func contents(list *corev1.ConfigMapList) string {
	var names []string
	for _, item := range list.Items {
		name := item.Name
		if item.Data["a"] == "changed" {
			name += "'"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func (b *book) checkVersion(t *testing.T, list *corev1.ConfigMapList, at string) {
	t.Helper()
	got := list.ResourceVersion
	switch at {
	case "any":
		if n := number(t, got); n < number(t, b.present) || n > number(t, b.now()) {
			t.Errorf("the list is of %s", got)
		}
	case "now":
		if now := b.now(); got != now {
			t.Errorf("the list is of %s, want etcd's present revision %s", got, now)
		}
	default:
		if want := b.named(at); got != want {
			t.Errorf("the list is of %s, want %s", got, want)
		}
	}
}

// TestContinue covers the documentation's section "Retrieving large results sets in chunks".
func TestContinue(t *testing.T) {
	t.Parallel()
	b := newBook(t, feed.DefaultPatience)
	token := func(version int64, start string) string {
		return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"v":"meta.k8s.io/v1","rv":%d,"start":%q}`, version, start))
	}
	first, err := b.list(metav1.ListOptions{Limit: 1})
	if err != nil || contents(first) != "a'" || *first.RemainingItemCount != 2 {
		t.Fatalf("the first page: %+v, %v", first, err)
	}
	// The list does not change while it is read, whatever happens meanwhile.
	if _, _, err := b.maps.Delete(t.Context(), "default", "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	create(b.world, "default", newConfigMap("d"))
	for _, version := range []string{"", "0"} {
		second, err := b.list(metav1.ListOptions{Limit: 1, Continue: first.Continue, ResourceVersion: version})
		if err != nil || contents(second) != "b" || second.ResourceVersion != first.ResourceVersion || *second.RemainingItemCount != 1 {
			t.Fatalf("the second page: %+v, %v", second, err)
		}
		third, err := b.list(metav1.ListOptions{Limit: 1, Continue: second.Continue, ResourceVersion: version})
		if err != nil || contents(third) != "c" || third.ResourceVersion != first.ResourceVersion || third.Continue != "" || third.RemainingItemCount != nil {
			t.Fatalf("the third page: %+v, %v", third, err)
		}
	}
	rest, err := b.list(metav1.ListOptions{Continue: first.Continue})
	if err != nil || contents(rest) != "b c" || rest.ResourceVersion != first.ResourceVersion {
		t.Errorf("the rest without a limit: %+v, %v", rest, err)
	}

	// Invalid requests.
	for name, c := range map[string]struct {
		opts metav1.ListOptions
		want string
	}{
		"a version":        {metav1.ListOptions{Continue: first.Continue, ResourceVersion: b.past}, "400 BadRequest: specifying resource version is not allowed when using continue"},
		"a match":          {metav1.ListOptions{Continue: first.Continue, ResourceVersion: "0", ResourceVersionMatch: "NotOlderThan"}, withContinue},
		"no base64":        {metav1.ListOptions{Continue: "?"}, "400 BadRequest: invalid continue token: continue key is not valid: illegal base64 data at input byte 0"},
		"version 0":        {metav1.ListOptions{Continue: token(0, "a")}, "400 BadRequest: invalid continue token: continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"},
		"no start":         {metav1.ListOptions{Continue: token(3, "")}, "400 BadRequest: invalid continue token: continue key is not valid: encoded start key empty (version meta.k8s.io/v1)"},
		"another place":    {metav1.ListOptions{Continue: token(3, "../x")}, "400 BadRequest: invalid continue token: continue key is not valid: ../x"},
		"a future version": {metav1.ListOptions{Continue: token(1000000, "a")}, versionTooHigh},
	} {
		_, err := b.list(c.opts)
		if got := strings.ReplaceAll(told(err), "current: "+b.now(), "current: NOW"); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}

	// The token outlives the revision: the list then continues with the current objects.
	b.Etcd.Compact(t, number(t, b.now()))
	_, err = b.list(metav1.ListOptions{Limit: 1, Continue: first.Continue})
	if got := told(err); got != inconsistent {
		t.Fatalf("after the compaction:\n got %s\nwant %s", got, inconsistent)
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Continue == "" {
		t.Fatal("there is no token to continue with")
	}
	later, err := b.list(metav1.ListOptions{Limit: 1, Continue: status.Status().Continue})
	if err != nil || contents(later) != "c" || *later.RemainingItemCount != 1 {
		t.Fatalf("continuing: %+v, %v", later, err)
	}
	b.checkVersion(t, later, "now")
	last, err := b.list(metav1.ListOptions{Limit: 1, Continue: later.Continue})
	if err != nil || contents(last) != "d" || last.Continue != "" || last.ResourceVersion != later.ResourceVersion {
		t.Errorf("the last page: %+v, %v", last, err)
	}
}

// TestContinueExpires checks that a token ends with the compaction of its revision, although the feed
// still has that state.
func TestContinueExpires(t *testing.T) {
	t.Parallel()
	b := newBook(t, feed.DefaultPatience)
	first, err := b.list(metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	b.Etcd.Put(t, map[string]string{"/elsewhere": "y"})
	if second, err := b.list(metav1.ListOptions{Limit: 1, Continue: first.Continue}); err != nil || contents(second) != "b" {
		t.Fatalf("before the compaction: %+v, %v", second, err)
	}
	b.Etcd.Compact(t, number(t, b.now()))
	// The store believes etcd's answer before the compaction for a second.
	got := ""
	eventually(t, "the end of the token, "+inconsistent, func() bool {
		_, err := b.list(metav1.ListOptions{Limit: 1, Continue: first.Continue})
		got = told(err)
		return err != nil
	})
	if got != inconsistent {
		t.Errorf("after the compaction:\n got %s\nwant %s", got, inconsistent)
	}
}

// TestContinueOverAllNamespaces continues within and between namespaces, and for kinds without a
// namespace.
func TestContinueOverAllNamespaces(t *testing.T) {
	t.Parallel()
	b := newBook(t, feed.DefaultPatience)
	for _, r := range []*registry.Resource{b.maps, resource[*corev1.Namespace](b.world)} {
		whole, err := r.Read(t.Context(), "", metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// In pages at one revision, and in inconsistent ones.
		for _, again := range []bool{false, true} {
			var names []string
			opts := metav1.ListOptions{Limit: 1}
			for {
				page, err := r.Read(t.Context(), "", opts)
				if err != nil {
					t.Fatal(err)
				}
				for _, obj := range page.Objects() {
					names = append(names, obj.GetNamespace()+"/"+obj.GetName())
				}
				if opts.Continue = page.Continue; opts.Continue == "" {
					break
				}
				if again {
					opts.Continue = outlived(t, opts.Continue)
				}
			}
			var want []string
			for _, obj := range whole.Objects() {
				want = append(want, obj.GetNamespace()+"/"+obj.GetName())
			}
			if fmt.Sprint(names) != fmt.Sprint(want) {
				t.Errorf("%s by pages: %v, want %v", r.Kind().Resource, names, want)
			}
		}
	}
}

// outlived turns a token into the one that the server returns after a compaction.
func outlived(t *testing.T, token string) string {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	fields["rv"] = -1
	if data, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// TestGetByVersion covers the documentation's table for get.
func TestGetByVersion(t *testing.T) {
	t.Parallel()
	b := newBook(t, feed.DefaultPatience)
	for _, c := range []struct{ version, name, want string }{
		{"", "a", "a'"},
		{"0", "a", "a'"},
		{"past", "a", "a'"},
		{"present", "a", "a'"},
		{"old", "a", "a'"},
		{"future", "a", versionTooHigh},
		{"x", "a", noNumber},
		{"", "z", `404 NotFound: configmaps "z" not found`},
		{"0", "z", `404 NotFound: configmaps "z" not found`},
		{"past", "z", `404 NotFound: configmaps "z" not found`},
	} {
		t.Run(fmt.Sprintf("version %q of %s", c.version, c.name), func(t *testing.T) {
			obj, err := b.maps.GetAt(t.Context(), "default", c.name, b.named(c.version))
			got := strings.ReplaceAll(told(err), "current: "+b.now(), "current: NOW")
			if err == nil {
				got = contents(&corev1.ConfigMapList{Items: []corev1.ConfigMap{*obj.(*corev1.ConfigMap)}})
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestWatchByVersion covers the documentation's table of "Semantics for watch".
func TestWatchByVersion(t *testing.T) {
	yes, no := true, false
	const notOlder = metav1.ResourceVersionMatchNotOlderThan
	now := "ADDED a', ADDED b, ADDED c"
	for _, c := range []struct {
		version   string
		match     metav1.ResourceVersionMatch
		initial   *bool
		bookmarks bool
		want      string // before the change that the test makes
		err       string
	}{
		// Get state and start at most recent; at any.
		{version: "", want: now},
		{version: "0", want: now},
		{version: "", bookmarks: true, want: now},
		// Start at exact.
		{version: "present", want: ""},
		{version: "past", want: "ADDED c, MODIFIED a'"},
		// Streaming lists.
		{version: "", match: notOlder, initial: &yes, bookmarks: true, want: now + ", END"},
		{version: "0", match: notOlder, initial: &yes, bookmarks: true, want: now + ", END"},
		{version: "past", match: notOlder, initial: &yes, bookmarks: true, want: now + ", END"},
		{version: "", match: notOlder, initial: &yes, want: now},
		{version: "", match: notOlder, initial: &no, want: ""},
		{version: "0", match: notOlder, initial: &no, want: ""},
		{version: "past", match: notOlder, initial: &no, want: "ADDED c, MODIFIED a'"},
		// Failures come as events.
		{version: "old", want: "ERROR 410 Expired: too old resource version: OLD (START)"},
		{version: "future", match: notOlder, initial: &yes, bookmarks: true, want: "ERROR " + versionTooHigh},
		// Invalid.
		{version: "x", err: `422 Invalid: configmaps "" is invalid: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax`},
		{version: "", initial: &yes, err: `422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`},
		{version: "", initial: &no, err: `422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan`},
		{version: "past", match: notOlder, err: `422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided`},
	} {
		t.Run(fmt.Sprintf("version %q, match %q, initial %s, bookmarks %t", c.version, c.match, shown(c.initial), c.bookmarks), func(t *testing.T) {
			t.Parallel()
			wait := patience
			if strings.Contains(c.want, versionTooHigh) {
				wait = feed.DefaultPatience
			}
			b := newBook(t, wait)
			w, err := b.maps.Watch(t.Context(), "default", metav1.ListOptions{
				ResourceVersion: b.named(c.version), ResourceVersionMatch: c.match, SendInitialEvents: c.initial, AllowWatchBookmarks: c.bookmarks,
			})
			if err != nil || c.err != "" {
				if got := told(err); got != c.err {
					t.Errorf("got  %s\nwant %s", got, c.err)
				}
				return
			}
			start, _ := b.maps.Feed().Window()
			want := strings.NewReplacer("OLD", b.old, "START", strconv.FormatInt(start, 10), "NOW", b.now()).Replace(c.want)
			f := run(t, w)
			t.Cleanup(f.Stop)
			if strings.HasPrefix(c.want, "ERROR") {
				event := <-f.ResultChan()
				if status, ok := event.Object.(*metav1.Status); !ok || "ERROR "+told(&apierrors.StatusError{ErrStatus: *status}) != want {
					t.Errorf("got  %s %+v\nwant %s", event.Type, event.Object, want)
				}
				if _, open := <-f.ResultChan(); open {
					t.Error("the watch goes on")
				}
				return
			}
			create(b.world, "default", newConfigMap("end"))
			if want != "" {
				want += ", "
			}
			if got := until(t, f, "end"); got != want+"ADDED end" {
				t.Errorf("got  %s\nwant %s", got, want+"ADDED end")
			}
		})
	}
}

func shown(b *bool) string {
	if b == nil {
		return "unset"
	}
	return strconv.FormatBool(*b)
}

// until collects events until one is about a named object.
func until(t *testing.T, f *following, name string) string {
	t.Helper()
	var got []string
	for {
		what, obj := next(t, f)
		if c, ok := obj.(*corev1.ConfigMap); ok && c.Data["a"] == "changed" {
			what += "'"
		}
		if strings.HasPrefix(what, string(watch.Bookmark)) && obj.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			what = "END"
		}
		got = append(got, what)
		if obj.GetName() == name {
			return strings.Join(got, ", ")
		}
	}
}

// TestWatchWaitsForTheFuture checks that a watch from a future revision delivers what follows it.
func TestWatchWaitsForTheFuture(t *testing.T) {
	t.Parallel()
	b := newBook(t, patience)
	from := number(t, b.now()) + 1
	f := follow(t, b.maps, "default", metav1.ListOptions{ResourceVersion: strconv.FormatInt(from, 10)})
	create(b.world, "default", newConfigMap("before")) // at from
	create(b.world, "default", newConfigMap("end"))
	if got := until(t, f, "end"); got != "ADDED end" {
		t.Errorf("got %s", got)
	}
}

// TestReadsWithoutEtcd checks that only reads that need etcd fail without it, with a suitable
// error.
func TestReadsWithoutEtcd(t *testing.T) {
	t.Parallel()
	b := newBook(t, feed.DefaultPatience)
	b.Etcd.Stop(t)
	if list, err := b.list(metav1.ListOptions{ResourceVersion: "0"}); err != nil || contents(list) != "a' b c" {
		t.Errorf("any version: %+v, %v", list, err)
	}
	if list, err := b.list(metav1.ListOptions{ResourceVersion: b.past}); err != nil || contents(list) != "a' b c" {
		t.Errorf("a known version: %+v, %v", list, err)
	}
	for _, version := range []string{"0", b.past} {
		if _, err := b.maps.GetAt(t.Context(), "default", "a", version); err != nil {
			t.Errorf("an object at %s: %v", version, err)
		}
	}
	var group sync.WaitGroup
	for name, read := range map[string]func() error{
		"now":    func() error { return second(b.list(metav1.ListOptions{})) },
		"a page": func() error { return second(b.list(metav1.ListOptions{Limit: 1})) },
		"exact": func() error {
			return second(b.list(metav1.ListOptions{ResourceVersion: b.past, ResourceVersionMatch: metav1.ResourceVersionMatchExact}))
		},
		"get": func() error { return second(b.maps.Get(t.Context(), "default", "a")) },
	} {
		group.Go(func() {
			if got := told(read()); got != "504 Timeout: Timeout: etcd did not answer in time" && !strings.HasPrefix(got, "503 ServiceUnavailable: ") {
				t.Errorf("%s: %s", name, got)
			}
		})
	}
	group.Wait()
}

func second[T any](_ T, err error) error { return err }
