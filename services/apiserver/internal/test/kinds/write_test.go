package kinds_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard/garboard/libs/scheme"
)

// TestEveryKindIsWritten creates, replaces, patches and deletes an object of every kind, each first
// as a dry run, and in all the ways in which these must fail.
func TestEveryKindIsWritten(t *testing.T) {
	forEvery(t, func(e *every) {
		e.fieldValidation()
		if e.kind.Virtual {
			return
		}
		e.creation()
		e.change()
		e.status()
		e.deletion()
		e.deleteCollection()
	})
}

// fieldValidation sends unknown and duplicate fields.
func (e *every) fieldValidation() {
	if e.kind.Observed {
		return
	}
	if e.kind.Kind == "Binding" {
		e.pod()
	}
	_, body := e.nth(1, nil)
	odd := `{"bogus":1,"kind":"` + e.kind.Kind + `",` + body[1:]
	const unknown, twice = `unknown field "bogus"`, `duplicate field "kind"`
	try := func(directive string) got {
		q := []string{"dryRun=All"}
		if directive != "" {
			q = append(q, "fieldValidation="+directive)
		}
		return e.do(http.MethodPost, e.at("", q...), asJSON, asJSON, odd)
	}
	for directive, warns := range map[string]bool{"": true, "Warn": true, "Ignore": false} {
		warnings := strings.Join(e.want(http.StatusCreated, try(directive)).header.Values("Warning"), " ")
		for _, words := range []string{`unknown field \"bogus\"`, `duplicate field \"kind\"`} {
			if strings.Contains(warnings, words) != warns {
				e.Errorf("fieldValidation=%s: got warnings %s", directive, warnings)
			}
		}
	}
	strict := try("Strict")
	e.wantMessage(http.StatusBadRequest, unknown, strict)
	e.wantMessage(http.StatusBadRequest, twice, strict)
	e.wantMessage(http.StatusBadRequest, "strict decoding error", strict)
}

// pod creates the pod that the sample of a binding names.
func (e *every) pod() {
	e.Helper()
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"sample"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	e.want(http.StatusCreated, e.do(http.MethodPost, "/api/v1/namespaces/"+e.namespace+"/pods", asJSON, asJSON, pod))
}

// creation tests POST.
func (e *every) creation() {
	name, body := e.nth(1, nil)
	tried := e.read(e.want(http.StatusCreated, e.do(http.MethodPost, e.at("", "dryRun=All"), asJSON, asJSON, body)))
	if tried.GetUID() == "" || tried.GetResourceVersion() != "" {
		e.Errorf("a dry run returns uid %q and resourceVersion %q", tried.GetUID(), tried.GetResourceVersion())
	}
	e.want(http.StatusNotFound, e.do(http.MethodGet, e.at(name), asJSON, asJSON, ""))

	created := e.create(1, nil)
	switch {
	case created.GroupVersionKind() != e.kind.GroupVersionKind, created.GetName() != name, created.GetNamespace() != e.namespace,
		created.GetUID() == "", created.GetResourceVersion() == "", created.GetCreationTimestamp().Time.IsZero():
		e.Errorf("created %v", created.Object)
	}
	if diff := cmp.Diff(created.Object, e.get(name).Object); diff != "" {
		e.Errorf("the response to the POST differs from the object (-POST +GET):\n%s", diff)
	}
	for _, q := range []string{"dryRun=None", "fieldManager=" + strings.Repeat("x", 129)} {
		if g := e.do(http.MethodPost, e.at("", q), asJSON, asJSON, body); g.code != http.StatusUnprocessableEntity {
			e.Errorf("%s: %d %s", g.what, g.code, g.message())
		}
	}
	for _, q := range []string{"", "dryRun=All"} {
		e.wantMessage(http.StatusConflict, fmt.Sprintf("%s %q already exists", e.kind.GroupResource(), name), e.do(http.MethodPost, e.at("", q), asJSON, asJSON, body))
	}
	_, other := e.nth(2, func(obj scheme.Object) {
		obj.GetObjectKind().SetGroupVersionKind(e.kind.GroupVersion().WithKind("Other"))
	})
	e.want(http.StatusBadRequest, e.do(http.MethodPost, e.collection(), asJSON, asJSON, other))
	_, misplaced := e.nth(2, func(obj scheme.Object) { obj.SetNamespace("elsewhere") })
	if e.kind.Namespaced {
		e.want(http.StatusBadRequest, e.do(http.MethodPost, e.collection(), asJSON, asJSON, misplaced))
	} else if made := e.read(e.want(http.StatusCreated, e.do(http.MethodPost, e.at("", "dryRun=All"), asJSON, asJSON, misplaced))); made.GetNamespace() != "" {
		e.Errorf("an object without namespaces is in %s", made.GetNamespace())
	}
	_, versioned := e.nth(2, func(obj scheme.Object) { obj.SetResourceVersion("7") })
	e.wantMessage(http.StatusInternalServerError, "resourceVersion should not be set on objects to be created", e.do(http.MethodPost, e.collection(), asJSON, asJSON, versioned))

	// The same in protobuf, in both directions.
	obj := e.set.Nth(e.kind, 2, e.namespace)
	inProtobuf := e.want(http.StatusCreated, e.do(http.MethodPost, e.collection(), asProtobuf, asProtobuf, e.protobuf(obj)))
	if created := e.get(obj.GetName()); e.settled(created) != created { // Its status was written since.
		posted := e.read(got{what: inProtobuf.what, body: []byte(e.typed(inProtobuf.body))})
		if diff := cmp.Diff(created.Object["spec"], posted.Object["spec"]); diff != "" {
			e.Errorf("the response to the POST in protobuf differs from the object (-JSON +protobuf):\n%s", diff)
		}
		inProtobuf = e.want(http.StatusOK, e.do(http.MethodGet, e.at(obj.GetName()), asJSON, asProtobuf, ""))
	}
	inJSON := e.do(http.MethodGet, e.at(obj.GetName()), asJSON, asJSON, "")
	if diff := cmp.Diff(e.typed(inJSON.body), e.typed(inProtobuf.body)); diff != "" {
		e.Errorf("protobuf differs from JSON (-JSON +protobuf):\n%s", diff)
	}
	e.want(http.StatusOK, e.do(http.MethodDelete, e.at(obj.GetName(), "gracePeriodSeconds=0"), asJSON, asJSON, ""))
	e.gone(obj.GetName())

	// With a generated name.
	prefix := e.set.GeneratedPrefix(e.kind)
	if prefix == "" {
		return
	}
	_, body = e.nth(3, func(obj scheme.Object) { obj.SetGenerateName(prefix); obj.SetName("") })
	made := e.read(e.want(http.StatusCreated, e.do(http.MethodPost, e.collection(), asJSON, asJSON, body)))
	// Limit ranges without a name are named by a UUID.
	if rest, ok := strings.CutPrefix(made.GetName(), prefix); (!ok || len(rest) != 5) && e.kind.Kind != "LimitRange" {
		e.Errorf("generateName %s made %s", prefix, made.GetName())
	}
	e.want(http.StatusOK, e.do(http.MethodDelete, e.at(made.GetName(), "gracePeriodSeconds=0"), asJSON, asJSON, ""))
	e.gone(made.GetName())
}

// change replaces and patches the first sample.
func (e *every) change() {
	name, _ := e.nth(1, nil)
	was := e.get(name)
	put := e.put(was, "example.com/put", "yes")
	tried := e.read(e.want(http.StatusOK, e.do(http.MethodPut, e.at(name, "dryRun=All"), asJSON, asJSON, put)))
	if tried.GetAnnotations()["example.com/put"] != "yes" {
		e.Errorf("the dry run of a PUT returns %v", tried.Object)
	}
	e.isStill(was, "the dry run of a PUT")
	same := e.read(e.want(http.StatusOK, e.do(http.MethodPut, e.at(name), asJSON, asJSON, e.encode(was))))
	if same.GetResourceVersion() != was.GetResourceVersion() {
		e.Errorf("a PUT without a change was written: %s", cmp.Diff(was.Object, same.Object))
	}
	replaced := e.read(e.want(http.StatusOK, e.do(http.MethodPut, e.at(name), asJSON, asJSON, put)))
	if replaced.GetAnnotations()["example.com/put"] != "yes" || replaced.GetResourceVersion() == was.GetResourceVersion() ||
		replaced.GetUID() != was.GetUID() || replaced.GetCreationTimestamp() != was.GetCreationTimestamp() || replaced.GetGeneration() != e.generation(was) {
		e.Errorf("a PUT of an annotation turned %v into\n%v", was.Object, replaced.Object)
	}
	e.wantMessage(http.StatusConflict, fmt.Sprintf("Operation cannot be fulfilled on %s %q: the object has been modified", e.kind.GroupResource(), name),
		e.do(http.MethodPut, e.at(name), asJSON, asJSON, put))
	e.want(http.StatusBadRequest, e.do(http.MethodPut, e.at("another"), asJSON, asJSON, put))

	was = replaced
	for i, patch := range []struct{ kind, body string }{
		{mergePatch, `{"metadata":{"annotations":{"example.com/0":"yes"}}}`},
		{jsonPatch, `[{"op":"add","path":"/metadata/annotations/example.com~11","value":"yes"}]`},
		{strategic, `{"metadata":{"annotations":{"example.com/2":"yes"}}}`},
	} {
		annotation := fmt.Sprintf("example.com/%d", i)
		tried := e.read(e.want(http.StatusOK, e.do(http.MethodPatch, e.at(name, "dryRun=All"), patch.kind, asJSON, patch.body)))
		if tried.GetAnnotations()[annotation] != "yes" {
			e.Errorf("the dry run of a %s returns %v", patch.kind, tried.Object)
		}
		e.isStill(was, "the dry run of a "+patch.kind)
		patched := e.read(e.want(http.StatusOK, e.do(http.MethodPatch, e.at(name), patch.kind, asJSON, patch.body)))
		if patched.GetAnnotations()[annotation] != "yes" || patched.GetResourceVersion() == was.GetResourceVersion() || patched.GetGeneration() != e.generation(was) {
			e.Errorf("a %s resulted in %v", patch.kind, patched.Object)
		}
		was = patched
		e.want(http.StatusNotFound, e.do(http.MethodPatch, e.at(name+"-none"), patch.kind, asJSON, patch.body))
	}
	for _, kind := range []string{mergePatch, strategic} {
		odd := `{"bogus":1,"metadata":{"annotations":{"example.com/odd":"yes"}}}`
		e.wantMessage(http.StatusUnprocessableEntity, `unknown field "bogus"`, e.do(http.MethodPatch, e.at(name, "fieldValidation=Strict"), kind, asJSON, odd))
		g := e.want(http.StatusOK, e.do(http.MethodPatch, e.at(name, "dryRun=All"), kind, asJSON, odd))
		if warnings := strings.Join(g.header.Values("Warning"), " "); !strings.Contains(warnings, `unknown field \"bogus\"`) {
			e.Errorf("a %s with an unknown field: got warnings %q", kind, warnings)
		}
		for _, immutable := range []string{`"uid":"x"`, `"creationTimestamp":"2000-01-01T00:00:00Z"`, `"name":"other"`, `"namespace":"other"`} {
			g := e.do(http.MethodPatch, e.at(name), kind, asJSON, `{"metadata":{`+immutable+`}}`)
			if is := e.get(name); is.GetUID() != was.GetUID() || is.GetCreationTimestamp() != was.GetCreationTimestamp() || is.GetName() != name || is.GetNamespace() != e.namespace {
				e.Errorf("%s of %s: got %d, and the object is now %v", g.what, immutable, g.code, is.Object)
			}
		}
	}
	e.want(http.StatusUnsupportedMediaType, e.do(http.MethodPatch, e.at(name), "application/x-nothing", asJSON, `{}`))
}

// generation returns the generation that follows the one of was when only an annotation changes.
func (e *every) generation(was *unstructured.Unstructured) int64 {
	if e.kind.Kind == "Deployment" {
		return was.GetGeneration() + 1 // The annotations count as content.
	}
	return was.GetGeneration()
}

// status writes the status: only its subresource does, and it writes nothing else.
func (e *every) status() {
	change, ok := e.set.Change(e.kind)
	if !ok {
		return
	}
	name, _ := e.nth(1, nil)
	was := e.get(name)
	both := fmt.Sprintf(`{"spec":%s,"status":%s}`, change.Spec, change.Status)
	main := e.do(http.MethodPatch, e.at(name), mergePatch, asJSON, fmt.Sprintf(`{"status":%s}`, change.Status))
	if diff := cmp.Diff(was.Object["status"], e.get(name).Object["status"]); diff != "" {
		e.Errorf("%s: got %d %s, and the status was written:\n%s", main.what, main.code, main.message(), diff)
	}
	was = e.get(name)
	if diff := cmp.Diff(was.Object, e.read(e.want(http.StatusOK, e.do(http.MethodGet, e.at(name+"/status"), asJSON, asJSON, ""))).Object); diff != "" {
		e.Errorf("reading the status returns another object:\n%s", diff)
	}
	e.want(http.StatusOK, e.do(http.MethodPatch, e.at(name+"/status", "dryRun=All"), mergePatch, asJSON, both))
	e.isStill(was, "the dry run of a status")
	is := e.read(e.want(http.StatusOK, e.do(http.MethodPatch, e.at(name+"/status"), mergePatch, asJSON, both)))
	if diff := cmp.Diff(was.Object["spec"], is.Object["spec"]); diff != "" {
		e.Errorf("a PATCH of the status wrote the spec:\n%s", diff)
	}
	var wanted any
	if err := json.Unmarshal(change.Status, &wanted); err != nil {
		e.Fatal(err)
	}
	if !within(wanted, is.Object["status"]) {
		e.Errorf("a PATCH of the status to %s resulted in %v", change.Status, is.Object["status"])
	}
	if was.GetGeneration() != is.GetGeneration() {
		e.Errorf("a PATCH of the status resulted in generation %d after %d", is.GetGeneration(), was.GetGeneration())
	}
	replaced := e.read(e.want(http.StatusOK, e.do(http.MethodPut, e.at(name+"/status"), asJSON, asJSON, e.encode(is))))
	if replaced.GetResourceVersion() != is.GetResourceVersion() {
		e.Errorf("a PUT of the unchanged status was written:\n%s", cmp.Diff(is.Object, replaced.Object))
	}
	stale := was.DeepCopy()
	stale.Object["status"] = map[string]any{}
	e.want(http.StatusConflict, e.do(http.MethodPut, e.at(name+"/status"), asJSON, asJSON, e.encode(stale)))
}

// within reports whether is contains all of wanted, as JSON.
func within(wanted, is any) bool {
	switch w := wanted.(type) {
	case map[string]any:
		i, ok := is.(map[string]any)
		for key, value := range w {
			ok = ok && within(value, i[key])
		}
		return ok
	case []any:
		i, ok := is.([]any)
		return ok && slices.EqualFunc(w, i, within)
	}
	return fmt.Sprint(wanted) == fmt.Sprint(is)
}

// deletion deletes the first sample.
func (e *every) deletion() {
	name, _ := e.nth(1, nil)
	was := e.get(name)
	options := func(opts metav1.DeleteOptions) string {
		opts.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("DeleteOptions"))
		return e.encode(&opts)
	}
	uid, version := was.GetUID(), was.GetResourceVersion()
	other, old := uid+"x", "1"
	for _, p := range []metav1.Preconditions{{UID: &other}, {ResourceVersion: &old}, {UID: &uid, ResourceVersion: &old}} {
		for _, q := range []string{"", "dryRun=All"} {
			e.wantMessage(http.StatusConflict, "in the precondition", e.do(http.MethodDelete, e.at(name, q), asJSON, asJSON, options(metav1.DeleteOptions{Preconditions: &p})))
		}
	}
	bad := metav1.DeletionPropagation("Bogus")
	e.want(http.StatusUnprocessableEntity, e.do(http.MethodDelete, e.at(name), asJSON, asJSON, options(metav1.DeleteOptions{PropagationPolicy: &bad})))
	for _, body := range []string{"", options(metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})} {
		e.want(http.StatusOK, e.do(http.MethodDelete, e.at(name, "dryRun=All"), asJSON, asJSON, body))
		e.isStill(was, "the dry run of a deletion")
	}
	foreground := metav1.DeletePropagationForeground
	e.want(http.StatusOK, e.do(http.MethodDelete, e.at(name), asJSON, asJSON, options(metav1.DeleteOptions{
		PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	})))
	waiting := e.get(name)
	if waiting.GetDeletionTimestamp() == nil || !slices.Contains(waiting.GetFinalizers(), metav1.FinalizerDeleteDependents) {
		e.Errorf("a foreground deletion resulted in %v", waiting.Object)
	}
	e.gone(name)
	e.want(http.StatusNotFound, e.do(http.MethodDelete, e.at(name), asJSON, asJSON, ""))

	e.create(1, nil)
	e.want(http.StatusOK, e.do(http.MethodDelete, e.at(name, "propagationPolicy=Orphan"), asJSON, asJSON, ""))
	if waiting := e.get(name); !slices.Contains(waiting.GetFinalizers(), metav1.FinalizerOrphanDependents) {
		e.Errorf("an orphaning deletion resulted in %v", waiting.Object)
	}
	e.gone(name)
}

// deleteCollection deletes what selectors select, and nothing else.
func (e *every) deleteCollection() {
	if e.kind.Kind == "Namespace" {
		e.want(http.StatusMethodNotAllowed, e.do(http.MethodDelete, e.collection(), asJSON, asJSON, ""))
		return
	}
	for n := 1; n <= 4; n++ {
		e.create(n, map[string]string{"every": "one", "n": fmt.Sprint(n)})
	}
	names := func() (names []string) {
		list, err := e.read(e.do(http.MethodGet, e.at("", query("labelSelector", "every=one")), asJSON, asJSON, "")).ToList()
		if err != nil {
			e.Fatal(err)
		}
		for _, item := range list.Items {
			names = append(names, item.GetLabels()["n"])
		}
		slices.Sort(names)
		return names
	}
	remove := func(left string, q ...string) {
		e.Helper()
		e.want(http.StatusOK, e.do(http.MethodDelete, e.at("", append(q, "gracePeriodSeconds=0")...), asJSON, asJSON, ""))
		for n := 1; n <= 4; n++ {
			name, _ := e.nth(n, nil)
			if g := e.do(http.MethodGet, e.at(name), asJSON, asJSON, ""); g.code == http.StatusOK && e.read(g).GetDeletionTimestamp() != nil {
				e.gone(name)
			}
		}
		if is := strings.Join(names(), " "); is != left {
			e.Errorf("deleting with %v left %q, want %q", q, is, left)
		}
	}
	second, _ := e.nth(2, nil)
	remove("1 2 3 4", query("labelSelector", "n=1"), "dryRun=All")
	remove("2 3 4", query("labelSelector", "n=1"))
	remove("3 4", query("labelSelector", "every=one"), query("fieldSelector", "metadata.name="+second))
	remove("", query("labelSelector", "every=one"))
}
