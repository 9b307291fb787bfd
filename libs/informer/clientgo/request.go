package clientgo

import (
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// nodeNameField selects a view of its own, for kinds with scopes.
const nodeNameField = "spec.nodeName"

// request is a list or watch that can be answered from a view.
type request struct {
	kind      *scheme.Kind
	namespace string
	watch     bool
	selected  selection
	format    format

	// version is the resourceVersion. It is 0 both for "0" and for an unset one; consistent means
	// that it is unset.
	version    int64
	consistent bool
	limit      int64
	// initial means that a watch must first send the existing objects, and mark their end.
	initial   bool
	bookmarks bool
	// timeout ends a watch; 0 if the request has none.
	timeout time.Duration
}

func (r *request) verb() string {
	if r.watch {
		return "watch"
	}
	return "list"
}

// parse parses a request; nil if the request must go to the apiserver. next carries requests there: it is
// asked for kinds that are not built in.
func (a *Adapter) parse(req *http.Request, next http.RoundTripper) *request {
	if req.Method != http.MethodGet || req.Header.Get("Upgrade") != "" || req.Header.Get("Range") != "" {
		return nil
	}
	path, ok := strings.CutPrefix(req.URL.Path, a.prefix)
	if !ok {
		return nil
	}
	gvr, namespace, ok := collection(path)
	if !ok {
		return nil
	}
	kind := a.table.Resource(gvr)
	if kind == nil && a.table.Stored(gvr.GroupResource()) == nil {
		kind = a.custom.kind(req, next, gvr)
	}
	if kind == nil || !kind.Stored() || namespace != "" && !kind.Namespaced {
		return nil
	}
	r := &request{kind: kind, namespace: namespace}
	if !r.options(req.URL.Query()) {
		return nil
	}
	if r.format, ok = a.negotiate(req.Header.Values("Accept"), r.watch); !ok ||
		kind.Custom && !r.format.partial && r.format.info.MediaType != runtime.ContentTypeJSON {
		return nil
	}
	return r
}

// collection parses the path of a collection: /api/VERSION/[namespaces/NAMESPACE/]RESOURCE, or
// /apis/GROUP/VERSION/....
func collection(path string) (gvr schema.GroupVersionResource, namespace string, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		gvr.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis" && parts[1] != "":
		gvr.Group, gvr.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return gvr, "", false
	}
	switch {
	case len(parts) == 1:
		gvr.Resource = parts[0]
	case len(parts) == 3 && parts[0] == "namespaces":
		namespace, gvr.Resource = parts[1], parts[2]
	default:
		return gvr, "", false
	}
	return gvr, namespace, gvr.Resource != "" && (len(parts) == 1 || namespace != "")
}

// options parses the query. It returns false for a faulty query, or one that the adapter does not
// answer.
func (r *request) options(query url.Values) bool {
	for name, values := range query {
		if len(values) != 1 {
			return false
		}
		switch name {
		case "watch", "labelSelector", "fieldSelector", "resourceVersion", "resourceVersionMatch", "limit",
			"sendInitialEvents", "allowWatchBookmarks", "timeoutSeconds", "timeout":
		default:
			return false
		}
	}
	flag := func(name string) (on, set, ok bool) {
		text, set := query[name]
		if !set {
			return false, false, true
		}
		on, err := strconv.ParseBool(text[0])
		return on, true, err == nil
	}
	var set, ok bool
	if r.watch, _, ok = flag("watch"); !ok {
		return false
	}
	if r.bookmarks, _, ok = flag("allowWatchBookmarks"); !ok {
		return false
	}
	if r.initial, set, ok = flag("sendInitialEvents"); !ok || set && (!r.initial || !r.watch) {
		return false
	}
	number := func(name string, into *int64) bool {
		text := query.Get(name)
		if text == "" {
			return true
		}
		n, err := strconv.ParseInt(text, 10, 64)
		*into = n
		return err == nil && n >= 0
	}
	var seconds int64
	if !number("resourceVersion", &r.version) || !number("limit", &r.limit) || !number("timeoutSeconds", &seconds) ||
		seconds > int64((1000*time.Hour).Seconds()) {
		return false
	}
	r.consistent = query.Get("resourceVersion") == ""
	r.timeout = time.Duration(seconds) * time.Second
	match := metav1.ResourceVersionMatch(query.Get("resourceVersionMatch"))
	switch {
	case r.watch:
		// Without initial events no match is allowed; with them only this one is.
		if r.initial != (match == metav1.ResourceVersionMatchNotOlderThan) || !r.initial && match != "" {
			return false
		}
	case match == metav1.ResourceVersionMatchNotOlderThan:
		if r.consistent {
			return false // The apiserver reports the error.
		}
	case match != "":
		return false
	case r.limit > 0 && r.version > 0:
		return false // Such a list is at exactly that version.
	}
	if !r.watch && !r.consistent && r.version == 0 {
		r.limit = 0 // As at the apiserver.
	}
	r.selected, ok = selectionOf(r.kind, r.namespace, query.Get("labelSelector"), query.Get("fieldSelector"))
	return ok
}

// selection is what a request selects from a view.
type selection struct {
	view   informer.View
	labels labels.Selector
	fields fields.Selector
	values func(informer.Object) fields.Set
	// name is the one selected name; empty if the selection is not a single name.
	name string
	// labelText and fieldText are the selectors as they were sent.
	labelText, fieldText string
}

// selectionOf parses selectors. It returns false if one of them is faulty, or selects by a field
// that only the apiserver supports.
func selectionOf(kind *scheme.Kind, namespace, labelSelector, fieldSelector string) (selection, bool) {
	s := selection{
		view: informer.View{Namespace: namespace}, labels: labels.Everything(), fields: fields.Everything(),
		labelText: labelSelector, fieldText: fieldSelector,
	}
	var err error
	if s.labels, err = labels.Parse(labelSelector); err != nil {
		return s, false
	}
	if s.fields, err = fields.ParseSelector(fieldSelector); err != nil {
		return s, false
	}
	if s.fields.Empty() {
		return s, true
	}
	s.values = func(obj informer.Object) fields.Set { return fieldsOf(kind, obj) }
	known := fieldsOf(kind, kind.New())
	for _, requirement := range s.fields.Requirements() {
		if _, ok := known[requirement.Field]; !ok {
			return s, false
		}
	}
	if name, ok := s.fields.RequiresExactMatch("metadata.name"); ok {
		s.name = name
		if name != "" && (namespace != "" || !kind.Namespaced) {
			s.view.Name = name
			return s, true
		}
	}
	if node, ok := s.fields.RequiresExactMatch(nodeNameField); ok && kind.Scope != nil && namespace == "" {
		if node == "" {
			node = scheme.Unscoped
		}
		s.view.Scope = node
	}
	return s, true
}

// matches reports whether an object is selected; false for nil.
func (s *selection) matches(obj informer.Object) bool {
	return obj != nil && (s.labels.Empty() || s.labels.Matches(labels.Set(obj.GetLabels()))) &&
		(s.fields.Empty() || s.fields.Matches(s.values(obj)))
}

// format is the encoding of a response.
type format struct {
	info runtime.SerializerInfo
	// partial means that only the metadata is wanted.
	partial bool
}

// negotiate returns the client's preferred format; false if the adapter does not support it.
func (a *Adapter) negotiate(accept []string, watch bool) (format, bool) {
	first, _, _ := strings.Cut(strings.Join(accept, ","), ",")
	mediaType, params, err := mime.ParseMediaType(first)
	if err != nil || strings.Contains(strings.Join(accept, ","), "q=") {
		return format{}, false
	}
	var f format
	if as := params["as"]; as != "" {
		want := "PartialObjectMetadataList"
		if watch {
			want = "PartialObjectMetadata"
		}
		if as != want || params["g"] != metav1.GroupName || params["v"] != "v1" {
			return format{}, false
		}
		f.partial = true
	}
	for _, info := range a.formats {
		if info.MediaType == mediaType && (mediaType == runtime.ContentTypeJSON || mediaType == runtime.ContentTypeProtobuf) {
			f.info = info
			return f, true
		}
	}
	return format{}, false
}
