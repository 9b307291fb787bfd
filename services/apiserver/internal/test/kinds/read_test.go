package kinds_test

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestEveryKindIsRead reads objects of every kind one by one, in lists, in pages and by watches, in
// every form.
func TestEveryKindIsRead(t *testing.T) {
	forEvery(t, func(e *every) {
		if e.kind.Virtual {
			return
		}
		var objs []*unstructured.Unstructured
		for n := 1; n <= 3; n++ {
			objs = append(objs, e.create(n, map[string]string{"every": "one", "n": fmt.Sprint(n)}))
		}
		e.forms(objs)
		e.pages()
		e.selectors(objs)
		e.watches(objs)
	})
}

// labelled is the query that selects the objects of this test.
const labelled = "labelSelector=every%3Done"

// forms reads in JSON, YAML and protobuf: whole objects, metadata and tables.
func (e *every) forms(objs []*unstructured.Unstructured) {
	first := objs[0]
	inJSON := e.do(http.MethodGet, e.at(first.GetName()), asJSON, asJSON, "")
	for _, form := range []string{asProtobuf, asYAML} {
		other := e.want(http.StatusOK, e.do(http.MethodGet, e.at(first.GetName()), asJSON, form, ""))
		if got := other.header.Get("Content-Type"); got != form {
			e.Errorf("asked for %s, got %s", form, got)
		}
		if diff := cmp.Diff(e.typed(inJSON.body), e.typed(other.body)); diff != "" {
			e.Errorf("%s differs from JSON:\n%s", form, diff)
		}
	}
	// The apiserver renews a Lease now and then, so a later list may have a later revision.
	harness.Await(e.T, "a list in protobuf that equals the list in JSON", func() error {
		var lists [2]runtime.Object
		for i, form := range []string{asJSON, asProtobuf} {
			g := e.want(http.StatusOK, e.do(http.MethodGet, e.at("", labelled), asJSON, form, ""))
			list, gvk, err := e.table.Codecs().UniversalDeserializer().Decode(g.body, nil, nil)
			if err != nil || *gvk != e.kind.ListKind() || meta.LenList(list) != len(objs) {
				e.Fatalf("a list in %s is a %v, %v", form, gvk, err)
			}
			list.GetObjectKind().SetGroupVersionKind(*gvk)
			lists[i] = list
		}
		if diff := cmp.Diff(e.encode(lists[0]), e.encode(lists[1])); diff != "" {
			return fmt.Errorf("the lists differ:\n%s", diff)
		}
		return nil
	})
	var listed []*unstructured.Unstructured
	list, err := e.read(e.do(http.MethodGet, e.at("", labelled), asJSON, asJSON, "")).ToList()
	if err != nil {
		e.Fatal(err)
	}
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(e.kind.GroupVersionKind)
		listed = append(listed, &list.Items[i])
	}
	if diff := cmp.Diff(objs, listed); diff != "" {
		e.Errorf("the list differs from what was created:\n%s", diff)
	}
	e.partials(objs)
	e.tables(objs)
}

// partials reads metadata only.
func (e *every) partials(objs []*unstructured.Unstructured) {
	wanted := metadataOf(e.T, objs[0])
	for _, form := range []string{asJSON, asProtobuf} {
		one := e.want(http.StatusOK, e.do(http.MethodGet, e.at(objs[0].GetName()), asJSON, form+";as=PartialObjectMetadata;g=meta.k8s.io;v=v1", ""))
		var partial metav1.PartialObjectMetadata
		e.decode(one.body, &partial, "PartialObjectMetadata")
		if diff := cmp.Diff(wanted, partial.ObjectMeta); diff != "" {
			e.Errorf("the metadata in %s differs:\n%s", form, diff)
		}
		all := e.want(http.StatusOK, e.do(http.MethodGet, e.at("", labelled), asJSON, form+";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", ""))
		var partials metav1.PartialObjectMetadataList
		e.decode(all.body, &partials, "PartialObjectMetadataList")
		if len(partials.Items) != len(objs) || partials.ResourceVersion == "" {
			e.Fatalf("a list of metadata in %s has %d items at version %q", form, len(partials.Items), partials.ResourceVersion)
		}
		if diff := cmp.Diff(wanted, partials.Items[0].ObjectMeta); diff != "" {
			e.Errorf("the metadata in a list in %s differs:\n%s", form, diff)
		}
	}
}

func metadataOf(t *testing.T, obj *unstructured.Unstructured) (wanted metav1.ObjectMeta) {
	t.Helper()
	data, err := json.Marshal(obj.Object["metadata"])
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &wanted); err != nil {
		t.Fatal(err)
	}
	return wanted
}

// decode decodes an object of meta.k8s.io.
func (e *every) decode(data []byte, into runtime.Object, kind string) {
	e.Helper()
	want := metav1.SchemeGroupVersion.WithKind(kind)
	if _, gvk, err := e.table.Codecs().UniversalDeserializer().Decode(data, &want, into); err != nil || *gvk != want {
		e.Fatalf("got a %v, want a %s: %v", gvk, kind, err)
	}
}

// tables reads tables, as kubectl does.
func (e *every) tables(objs []*unstructured.Unstructured) {
	for include, kind := range map[string]schema.GroupVersionKind{
		"": metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"), "None": {}, "Object": e.kind.GroupVersionKind,
		"Metadata": metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"),
	} {
		for where, rows := range map[string]int{e.at("", labelled): len(objs), e.at(objs[0].GetName()) + "?": 1} {
			g := e.want(http.StatusOK, e.do(http.MethodGet, where+"&includeObject="+include, asJSON, asTable, ""))
			var table metav1.Table
			if err := json.Unmarshal(g.body, &table); err != nil || table.Kind != "Table" || len(table.Rows) != rows || len(table.ColumnDefinitions) < 2 || table.ColumnDefinitions[0].Name != "Name" && e.kind.Kind != "Event" {
				e.Fatalf("%s: %v: %s", g.what, err, g.body)
			}
			for _, row := range table.Rows {
				if len(row.Cells) != len(table.ColumnDefinitions) {
					e.Errorf("%s: got %d columns and a row of %d cells", g.what, len(table.ColumnDefinitions), len(row.Cells))
				}
				var is metav1.TypeMeta
				if len(row.Object.Raw) > 0 {
					if err := json.Unmarshal(row.Object.Raw, &is); err != nil {
						e.Fatal(err)
					}
				}
				if is.GroupVersionKind() != kind {
					e.Errorf("%s: got a %s as a row's object", g.what, is.GroupVersionKind())
				}
			}
		}
	}
	e.wantMessage(http.StatusBadRequest, "Bogus", e.do(http.MethodGet, e.at("", "includeObject=Bogus"), asJSON, asTable, ""))
}

// pages reads a list in pages.
func (e *every) pages() {
	var names []string
	next, version := "", ""
	for range 4 {
		g := e.want(http.StatusOK, e.do(http.MethodGet, e.at("", labelled, "limit=1", query("continue", next)), asJSON, asJSON, ""))
		list, err := e.read(g).ToList()
		if err != nil {
			e.Fatal(err)
		}
		for _, item := range list.Items {
			names = append(names, item.GetLabels()["n"])
		}
		if version == "" {
			version = list.GetResourceVersion()
		}
		if len(list.Items) > 1 || list.GetResourceVersion() != version {
			e.Errorf("a page has %d items at version %s, want the first page's version %s", len(list.Items), list.GetResourceVersion(), version)
		}
		if next = list.GetContinue(); next == "" {
			break
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "1 2 3" || next != "" {
		e.Errorf("the pages hold %q, want 1 2 3 and no further page", got)
	}
	e.want(http.StatusBadRequest, e.do(http.MethodGet, e.at("", "limit=1", "continue=rubbish"), asJSON, asJSON, ""))
}

// selectors selects by labels and by the fields that every kind has.
func (e *every) selectors(objs []*unstructured.Unstructured) {
	second := objs[1].GetName()
	for q, want := range map[string]string{
		query("labelSelector", "every=one,n in (1,3)"):                                            "1 3",
		query("labelSelector", "every=one,n!=1"):                                                  "2 3",
		query("fieldSelector", "metadata.name="+second):                                           "2",
		labelled + "&" + query("fieldSelector", "metadata.name!="+second):                         "1 3",
		labelled + "&" + query("fieldSelector", "metadata.namespace="+e.namespace):                "1 2 3",
		labelled + "&" + query("fieldSelector", "metadata.namespace=elsewhere"):                   "",
		query("labelSelector", "every=one,n=1") + "&" + query("fieldSelector", "metadata.name=x"): "",
	} {
		if e.namespace == "" && strings.Contains(q, "metadata.namespace") {
			continue
		}
		list, err := e.read(e.want(http.StatusOK, e.do(http.MethodGet, e.at("", q), asJSON, asJSON, ""))).ToList()
		if err != nil {
			e.Fatal(err)
		}
		var names []string
		for _, item := range list.Items {
			names = append(names, item.GetLabels()["n"])
		}
		if got := strings.Join(names, " "); got != want {
			e.Errorf("%s selects %q, want %q", q, got, want)
		}
	}
	for _, watch := range []string{"false", "true"} {
		g := e.do(http.MethodGet, e.at("", "watch="+watch, "fieldSelector=bogus%3D1"), asJSON, asJSON, "")
		if g.code != http.StatusBadRequest || !strings.Contains(g.message(), "bogus") ||
			!strings.Contains(g.message(), "not supported") && !strings.Contains(g.message(), "is not a known field selector") {
			e.Errorf("an unknown field: got %d %s", g.code, g.message())
		}
		e.wantMessage(http.StatusBadRequest, "unable to parse requirement", e.do(http.MethodGet, e.at("", "watch="+watch, "labelSelector=a+b+c"), asJSON, asJSON, ""))
	}
}

// watches watches from before the first object was created.
func (e *every) watches(objs []*unstructured.Unstructured) {
	version := e.read(e.do(http.MethodGet, e.at("", "limit=1"), asJSON, asJSON, "")).GetResourceVersion()
	name := objs[0].GetName()
	e.want(http.StatusOK, e.do(http.MethodPatch, e.at(name), mergePatch, asJSON, `{"metadata":{"annotations":{"example.com/watched":"yes"}}}`))
	e.want(http.StatusOK, e.do(http.MethodDelete, e.at(name, "gracePeriodSeconds=0"), asJSON, asJSON, ""))
	e.gone(name)
	for _, form := range []string{asJSON, asProtobuf, asTable, asJSON + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1", asProtobuf + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"} {
		said := e.watch(form, "resourceVersion="+version)
		if len(said) < 2 || said[0] != "MODIFIED yes" || said[len(said)-1] != "DELETED yes" {
			e.Errorf("a watch in %s delivers %q", form, said)
		}
		if said := e.watch(form, "sendInitialEvents=true", "resourceVersionMatch=NotOlderThan", "allowWatchBookmarks=true"); strings.Join(said, ", ") != "ADDED , ADDED , BOOKMARK true" {
			e.Errorf("a watch in %s with initial events delivers %q", form, said)
		}
	}
}

// watch reads a watch until its object is deleted or the initial events have ended, and returns the
// events' types with the annotation that marks a changed object or, for a bookmark, the end of the
// initial events.
func (e *every) watch(form string, q ...string) (said []string) {
	e.Helper()
	req, err := http.NewRequestWithContext(e.Context(), http.MethodGet, e.server.URL+e.at("", append(q, labelled, "watch=true", "timeoutSeconds=60")...), http.NoBody)
	if err != nil {
		e.Fatal(err)
	}
	req.Header.Set("Accept", form)
	res, err := e.client.Do(req)
	if err != nil {
		e.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(res.Body)
		e.Fatalf("a watch in %s: got %d %s", form, res.StatusCode, data)
	}
	reader := bufio.NewReader(res.Body)
	for len(said) < 10 {
		var kind string
		var metadata metav1.ObjectMeta
		if strings.HasPrefix(form, asProtobuf) {
			kind, metadata = e.protobufEvent(reader)
		} else {
			kind, metadata = e.jsonEvent(reader)
		}
		if kind == "BOOKMARK" {
			return append(said, kind+" "+metadata.Annotations[metav1.InitialEventsAnnotationKey])
		}
		said = append(said, kind+" "+metadata.Annotations["example.com/watched"])
		if kind == "DELETED" {
			break
		}
	}
	return said
}

func (e *every) jsonEvent(reader *bufio.Reader) (string, metav1.ObjectMeta) {
	e.Helper()
	line, err := reader.ReadBytes('\n')
	if err != nil {
		e.Fatal(err)
	}
	var event struct {
		Type   string
		Object struct {
			Metadata metav1.ObjectMeta
			Rows     []struct {
				Object struct{ Metadata metav1.ObjectMeta }
			}
		}
	}
	if err := json.Unmarshal(line, &event); err != nil {
		e.Fatal(err)
	}
	if len(event.Object.Rows) > 0 {
		return event.Type, event.Object.Rows[0].Object.Metadata
	}
	return event.Type, event.Object.Metadata
}

func (e *every) protobufEvent(reader *bufio.Reader) (string, metav1.ObjectMeta) {
	e.Helper()
	var length [4]byte
	if _, err := io.ReadFull(reader, length[:]); err != nil {
		e.Fatal(err)
	}
	data := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(reader, data); err != nil {
		e.Fatal(err)
	}
	var event metav1.WatchEvent
	if err := event.Unmarshal(data); err != nil {
		e.Fatal(err)
	}
	obj, _, err := e.table.Codecs().UniversalDeserializer().Decode(event.Object.Raw, nil, nil)
	if err != nil {
		e.Fatal(err)
	}
	access, err := meta.Accessor(obj)
	if err != nil {
		e.Fatal(err)
	}
	return event.Type, metav1.ObjectMeta{Annotations: access.GetAnnotations()}
}
