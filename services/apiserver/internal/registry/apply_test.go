package registry_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// wanted parses the configuration of an apply.
func wanted(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	obj := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: obj}
}

// apply applies to an object in the namespace default.
func apply[T scheme.Object](w *world, writer, name, text string, change ...func(*registry.UpdateOptions)) (T, error) {
	w.T.Helper()
	opts := registry.UpdateOptions{FieldManager: writer}
	for _, c := range change {
		c(&opts)
	}
	obj, err := resource[T](w).Apply(w.T.Context(), "default", name, wanted(w.T, text), nil, opts)
	if err != nil {
		var none T
		return none, err
	}
	return obj.(T), nil
}

func forced(opts *registry.UpdateOptions)   { opts.Force = true }
func toStatus(opts *registry.UpdateOptions) { opts.Subresource = "status" }

// owners returns the owners of fields, one entry each: "writer operation [subresource] fields".
func owners(obj scheme.Object) []string {
	var list []string
	for _, entry := range obj.GetManagedFields() {
		text := entry.Manager + " " + string(entry.Operation) + " "
		if entry.Subresource != "" {
			text += entry.Subresource + " "
		}
		list = append(list, text+entry.FieldsV1.String())
	}
	slices.Sort(list)
	return list
}

func wantOwners(t *testing.T, obj scheme.Object, want ...string) {
	t.Helper()
	if got := owners(obj); !slices.Equal(got, want) {
		t.Errorf("%s is owned by\n%s\nwant\n%s", obj.GetName(), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// step is one apply of a ConfigMap's configuration, with its expected result.
type step struct {
	writer, body string
	force        bool
	owners       []string
	data         map[string]string
	says         string   // of an error
	conflicts    []string // "field: message"
}

func TestApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	config := func(data string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {" + data + "}\n"
	}
	const (
		one  = ` Apply {"f:data":{"f:a":{}}}`
		both = ` Apply {"f:data":{"f:a":{},"f:b":{}}}`
	)
	cases := map[string][]step{
		"apply creates": {
			{writer: "me", body: config("a: x"), owners: []string{"me" + one}, data: map[string]string{"a": "x"}},
			{writer: "me", body: config("a: v, b: z"), owners: []string{"me" + both}, data: map[string]string{"a": "v", "b": "z"}},
		},
		"unwanted fields are removed": {
			{writer: "me", body: config("a: x, b: v"), owners: []string{"me" + both}, data: map[string]string{"a": "x", "b": "v"}},
			{writer: "me", body: config("a: x"), owners: []string{"me" + one}, data: map[string]string{"a": "x"}},
		},
		"two own a field with one value": {
			{writer: "me", body: config("a: x, b: v"), owners: []string{"me" + both}, data: map[string]string{"a": "x", "b": "v"}},
			{writer: "you", body: config("a: x"), owners: []string{"me" + both, "you" + one}, data: map[string]string{"a": "x", "b": "v"}},
			{writer: "me", body: config("b: v"), owners: []string{`me Apply {"f:data":{"f:b":{}}}`, "you" + one}, data: map[string]string{"a": "x", "b": "v"}},
			{writer: "you", body: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n", owners: []string{`me Apply {"f:data":{"f:b":{}}}`}, data: map[string]string{"b": "v"}},
		},
		"a conflict": {
			{writer: "me", body: config("a: x"), owners: []string{"me" + one}, data: map[string]string{"a": "x"}},
			{
				writer: "you", body: config("a: v"), says: `Apply failed with 1 conflict: conflict with "me": .data.a`,
				conflicts: []string{`.data.a: conflict with "me"`},
			},
			{writer: "you", body: config("a: v"), force: true, owners: []string{"you" + one}, data: map[string]string{"a": "v"}},
		},
		"conflicts with two": {
			{writer: "me", body: config("a: x"), owners: []string{"me" + one}, data: map[string]string{"a": "x"}},
			{writer: "you", body: config("b: x"), owners: []string{"me" + one, `you Apply {"f:data":{"f:b":{}}}`}, data: map[string]string{"a": "x", "b": "x"}},
			{
				writer: "they", body: config("a: v, b: v"),
				says:      "Apply failed with 2 conflicts: conflicts with \"me\":\n- .data.a\nconflicts with \"you\":\n- .data.b",
				conflicts: []string{`.data.a: conflict with "me"`, `.data.b: conflict with "you"`},
			},
		},
	}
	number := 0
	for name, steps := range cases {
		number++
		object := fmt.Sprintf("map-%d", number)
		t.Run(name, func(t *testing.T) {
			for i, s := range steps {
				got, err := apply[*corev1.ConfigMap](w, s.writer, object, strings.ReplaceAll(s.body, "NAME", object), func(o *registry.UpdateOptions) { o.Force = s.force })
				if s.says != "" {
					checkConflict(t, err, s.says, s.conflicts)
					continue
				}
				if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				wantOwners(t, got, s.owners...)
				if !maps.Equal(got.Data, s.data) {
					t.Errorf("step %d: the data are %v", i, got.Data)
				}
				wantOwners(t, get[*corev1.ConfigMap](w, "default", object), s.owners...)
			}
		})
	}
}

func checkConflict(t *testing.T, err error, says string, causes []string) {
	t.Helper()
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || answer.Status().Code != 409 || answer.Status().Reason != metav1.StatusReasonConflict || answer.Status().Message != says {
		t.Fatalf("applied with %v, want %s", err, says)
	}
	var got []string
	for _, cause := range answer.Status().Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			t.Errorf("a cause of type %s", cause.Type)
		}
		got = append(got, cause.Field+": "+cause.Message)
	}
	slices.Sort(got)
	if !slices.Equal(got, causes) {
		t.Errorf("the causes are %q, want %q", got, causes)
	}
}

const template = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
`

func TestApplyMergesListsByTheirKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := apply[*appsv1.Deployment](w, "me", "web", template+`
      - name: c
        image: x
        command: [a, b]
        ports: [{containerPort: 80}, {containerPort: 80, protocol: UDP}]
`); err != nil {
		t.Fatal(err)
	}
	got, err := apply[*appsv1.Deployment](w, "you", "web", template+`
      - name: d
        image: v
      - name: c
        ports: [{containerPort: 81}]
`)
	if err != nil {
		t.Fatal(err)
	}
	containers := got.Spec.Template.Spec.Containers
	if len(containers) != 2 || len(containers[slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "c" })].Ports) != 3 {
		t.Fatalf("merged to %+v", containers)
	}
	// A list without keys has one owner.
	_, err = apply[*appsv1.Deployment](w, "you", "web", template+`
      - name: c
        command: [a]
`)
	checkConflict(t, err, `Apply failed with 1 conflict: conflict with "me": .spec.template.spec.containers[name="c"].command`,
		[]string{`.spec.template.spec.containers[name="c"].command: conflict with "me"`})
	got, err = apply[*appsv1.Deployment](w, "me", "web", template+`
      - name: c
        image: x
        ports: [{containerPort: 80}]
`)
	if err != nil {
		t.Fatal(err)
	}
	containers = got.Spec.Template.Spec.Containers
	c := containers[slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == "c" })]
	if len(containers) != 2 || len(c.Ports) != 2 || c.Command != nil {
		t.Errorf("a field that is no longer wanted stayed: %+v", c)
	}
	if c.TerminationMessagePath != "/dev/termination-log" || got.Spec.Replicas == nil || *got.Spec.Replicas != 1 {
		t.Errorf("the defaults are missing: %+v", got.Spec)
	}
	for _, entry := range owners(got) {
		if strings.Contains(entry, "terminationMessagePath") || strings.Contains(entry, "f:replicas") {
			t.Errorf("a default has an owner: %s", entry)
		}
	}
}

func TestApplyIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made, err := apply[*corev1.ConfigMap](w, "me", "made", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made}\ndata: {a: x}\n")
	if err != nil {
		t.Fatal(err)
	}
	const head = "apiVersion: v1\nkind: ConfigMap\n"
	cases := map[string]struct {
		name, body, subresource string
		code                    int32
		says                    string
	}{
		"another name":        {name: "made", body: head + "metadata: {name: other}", code: 400, says: "the name of the object (other) does not match the name on the URL (made)"},
		"a new one's name":    {name: "new", body: head + "metadata: {name: other}", code: 400, says: "the name of the object (other) does not match the name on the URL (new)"},
		"no name":             {name: "new", body: head + "data: {a: x}", code: 400, says: "the name of the object (new based on URL) was undeterminable: name must be provided"},
		"a generated name":    {name: "new", body: head + "metadata: {generateName: g-}", code: 400, says: "the name of the object (new based on URL) was undeterminable: name must be provided"},
		"another namespace":   {name: "made", body: head + "metadata: {name: made, namespace: kube-system}", code: 400, says: "namespace"},
		"owners":              {name: "made", body: head + "metadata: {name: made, managedFields: []}", code: 400, says: "metadata.managedFields must be nil"},
		"another uid":         {name: "made", body: head + "metadata: {name: made, uid: u}", code: 422, says: `ConfigMap "made" is invalid: metadata.uid: Invalid value: "u": field is immutable`},
		"a new one's uid":     {name: "new", body: head + "metadata: {name: new, uid: u}", code: 409, says: `Operation cannot be fulfilled on configmaps "new": uid mismatch: the provided object specified uid u, and no existing object was found`},
		"an old version":      {name: "made", body: head + "metadata: {name: made, resourceVersion: \"1\"}\ndata: {a: z}", code: 409, says: `Operation cannot be fulfilled on configmaps "made": the object has been modified; please apply your changes to the latest version and try again`},
		"an unknown field":    {name: "made", body: head + "metadata: {name: made}\nfoo: 1", code: 500, says: `failed to create typed patch object (/made; /v1, Kind=ConfigMap): .foo: field not declared in schema`},
		"a wrong type":        {name: "made", body: head + "metadata: {name: made}\ndata: {a: [x]}", code: 500, says: `failed to create typed patch object (/made; /v1, Kind=ConfigMap): .data.a: expected string, got &value.valueUnstructured{Value:[]interface {}{"x"}}`},
		"another kind":        {name: "made", body: "apiVersion: v1\nkind: Secret\nmetadata: {name: made}", code: 400, says: "invalid object type: /v1, Kind=Secret"},
		"another API version": {name: "made", body: "apiVersion: v2\nkind: ConfigMap\nmetadata: {name: made}", code: 400, says: "invalid object type: /v2, Kind=ConfigMap"},
		"no kind":             {name: "made", body: "metadata: {name: made}", code: 400, says: "invalid object type: /, Kind="},
		"an invalid key":      {name: "made", body: head + "metadata: {name: made}\ndata: {\"a b\": x}", code: 422, says: `data[a b]: Invalid value: "a b"`},
		"no subresource":      {name: "made", subresource: "status", body: head + "metadata: {name: made}", code: 404, says: "not found"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := apply[*corev1.ConfigMap](w, "me", c.name, c.body, func(o *registry.UpdateOptions) { o.Subresource = c.subresource })
			var answer apierrors.APIStatus
			if !errors.As(err, &answer) || answer.Status().Code != c.code || !strings.Contains(answer.Status().Message, c.says) {
				t.Errorf("applied with %v, want %d %s", err, c.code, c.says)
			}
		})
	}
	if now := get[*corev1.ConfigMap](w, "default", "made"); now.ResourceVersion != made.ResourceVersion {
		t.Error("a refused apply was written")
	}
	// Applying the status of a missing object does not create it.
	if _, err := apply[*appsv1.Deployment](w, "me", "none", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: none}\nstatus: {replicas: 1}", toStatus); !apierrors.IsNotFound(err) {
		t.Errorf("the status of a missing object was applied: %v", err)
	}
}

func TestApplyingTheSameWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := template + "      - {name: c, image: x}\n"
	first, err := apply[*appsv1.Deployment](w, "me", "web", text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := apply[*appsv1.Deployment](w, "me", "web", text)
	if err != nil || again.ResourceVersion != first.ResourceVersion {
		t.Errorf("applied again to version %s of %s: %v", again.ResourceVersion, first.ResourceVersion, err)
	}
	made := false
	dry, err := apply[*appsv1.Deployment](w, "me", "web", text+"      - {name: d, image: v}\n", func(o *registry.UpdateOptions) { o.DryRun, o.Created = true, &made })
	if err != nil || len(dry.Spec.Template.Spec.Containers) != 2 || made {
		t.Errorf("a dry run made %+v: %v", dry, err)
	}
	if now := get[*appsv1.Deployment](w, "default", "web"); now.ResourceVersion != first.ResourceVersion {
		t.Error("a dry run was written")
	}
	dry, err = apply[*appsv1.Deployment](w, "me", "other", strings.ReplaceAll(text, "name: web", "name: other"), func(o *registry.UpdateOptions) { o.DryRun, o.Created = true, &made })
	if err != nil || dry.UID == "" || !made {
		t.Errorf("a dry run that creates made %+v: %v", dry, err)
	}
	if _, err := resource[*appsv1.Deployment](w).Get(t.Context(), "default", "other"); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run has created: %v", err)
	}
}

// TestAppliersOwnWhatTheyApplied lets many writers apply to one object at the same time.
func TestAppliersOwnWhatTheyApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const count = 12
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shared, labels: {l%d: v}}\n", i)
			if _, err := apply[*corev1.ConfigMap](w, fmt.Sprintf("w%d", i), "shared", text); err != nil {
				t.Errorf("applier %d: %v", i, err)
			}
		})
	}
	all.Wait()
	got := get[*corev1.ConfigMap](w, "default", "shared")
	if len(got.Labels) != count || len(got.ManagedFields) != count {
		t.Errorf("of %d appliers' labels there are %v, owned by %q", count, got.Labels, owners(got))
	}
}
