package apiservices_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/apiservices"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	service    = apiregistrationv1.APIService
	definition = apiextensionsv1.CustomResourceDefinition
	version    = apiextensionsv1.CustomResourceDefinitionVersion
)

const label = "kube-aggregator.kubernetes.io/automanaged"

// keeper returns the keeper of a world.
func keeper(w *registrytest.World) *apiservices.Keeper {
	return apiservices.New(apiservices.Config{
		Table: w.Table, Registry: w.Registry, Feeds: w.Feeds, Logger: slog.New(slog.NewTextHandler(w.T.Output(), nil)),
	})
}

// run runs a keeper until the test ends.
func run(w *registrytest.World) {
	w.T.Helper()
	k := keeper(w)
	if err := k.Begin(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.T.Context()))
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	w.T.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.T.Errorf("the keeper ended: %v", err)
		}
	})
}

// defining returns the definition of a resource of a group, with versions of which those with a minus are not served.
func defining(group, plural string, versions ...string) *definition {
	all := true
	kind := strings.ToUpper(plural[:1]) + strings.TrimSuffix(plural[1:], "s")
	d := &definition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
		},
	}
	for i, name := range versions {
		name, off := strings.CutPrefix(name, "-")
		d.Spec.Versions = append(d.Spec.Versions, version{Name: name, Served: !off, Storage: i == 0, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &all},
		}})
	}
	return d
}

// made returns a user's object of a group and version.
func made(name string, group, version int32) *service {
	v, g, _ := strings.Cut(name, ".")
	return &service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: apiregistrationv1.APIServiceSpec{
		Group: g, Version: v, GroupPriorityMinimum: group, VersionPriority: version,
	}}
}

// summaries returns the objects of the group example.org and its subdomains, each in short.
func summaries(w *registrytest.World) map[string]string {
	w.T.Helper()
	found, err := registrytest.Of[*service](w).Read(w.T.Context(), "", metav1.ListOptions{})
	if err != nil {
		w.T.Fatal(err)
	}
	short := map[string]string{}
	for _, item := range found.Items {
		if one, ok := item.Object.(*service); ok && strings.HasSuffix(one.Spec.Group, "example.org") {
			short[one.Name] = fmt.Sprintf("%d/%d %s", one.Spec.GroupPriorityMinimum, one.Spec.VersionPriority, one.Labels[label])
		}
	}
	return short
}

// until waits until the objects are as wanted.
func until(w *registrytest.World, what string, want map[string]string) {
	w.T.Helper()
	var got map[string]string
	for deadline := time.Now().Add(registrytest.Patience); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		if got = summaries(w); maps.Equal(got, want) {
			return
		}
	}
	w.T.Fatalf("%s: got %v, want %v", what, got, want)
}

// drop deletes an object.
func drop[T scheme.Object](w *registrytest.World, name string) {
	w.T.Helper()
	if _, _, err := registrytest.Of[T](w).Delete(w.T.Context(), "", name, metav1.DeleteOptions{}); err != nil {
		w.T.Fatal(err)
	}
}

// undefine deletes a definition, whose objects nothing finalizes here.
func undefine(w *registrytest.World, name string) {
	w.T.Helper()
	drop[*definition](w, name)
	if _, err := registrytest.Update(w, "", name, "", func(d *definition) { d.Finalizers = nil }); err != nil {
		w.T.Fatal(err)
	}
}

const custom = "1000/100 true"

// TestCustomResources follows the objects of a group through changes of its definitions, and of the objects.
func TestCustomResources(t *testing.T) {
	w := registrytest.New(t)
	run(w)
	registrytest.Create(w, "", defining("example.org", "eggs", "v1", "v2", "-v3"))
	until(w, "a definition", map[string]string{"v1.example.org": custom, "v2.example.org": custom})
	registrytest.Create(w, "", defining("example.org", "rods", "v2", "v4"))
	registrytest.Create(w, "", defining("a.example.org", "eggs", "v1"))
	all := map[string]string{"v1.example.org": custom, "v2.example.org": custom, "v4.example.org": custom, "v1.a.example.org": custom}
	until(w, "further definitions", all)
	if got := registrytest.Get[*service](w, "", "v4.example.org"); got.Spec.Service != nil || len(got.Status.Conditions) != 1 || got.Status.Conditions[0].Reason != "Local" {
		t.Errorf("it is not local: %+v", got)
	}

	if _, err := registrytest.Update(w, "", "v4.example.org", "", func(s *service) { s.Spec.VersionPriority = 7 }); err != nil {
		t.Fatal(err)
	}
	until(w, "a changed object", all)
	drop[*service](w, "v2.example.org")
	until(w, "a deleted object", all)

	if _, err := registrytest.Update(w, "", "eggs.example.org", "", func(d *definition) { d.Spec.Versions[0].Served, d.Spec.Versions[2].Served = false, true }); err != nil {
		t.Fatal(err)
	}
	delete(all, "v1.example.org")
	all["v3.example.org"] = custom
	until(w, "other served versions", all)

	for _, name := range []string{"rods.example.org", "eggs.a.example.org"} {
		undefine(w, name)
	}
	until(w, "fewer definitions", map[string]string{"v2.example.org": custom, "v3.example.org": custom})
}

// TestUsersObjects checks that objects without the label are left alone, with and without a definition.
func TestUsersObjects(t *testing.T) {
	w := registrytest.New(t)
	registrytest.Create(w, "", made("v1.example.org", 500, 5))
	registrytest.Create(w, "", made("v9.example.org", 600, 6))
	run(w)
	registrytest.Create(w, "", defining("example.org", "eggs", "v1", "v2"))
	users := map[string]string{"v1.example.org": "500/5 ", "v2.example.org": custom, "v9.example.org": "600/6 "}
	until(w, "a definition", users)
	// Who removes the label takes the object over.
	if _, err := registrytest.Update(w, "", "v2.example.org", "", func(s *service) { s.Labels, s.Spec.VersionPriority = nil, 7 }); err != nil {
		t.Fatal(err)
	}
	registrytest.Create(w, "", defining("example.org", "rods", "v3"))
	users["v2.example.org"], users["v3.example.org"] = "1000/7 ", custom
	until(w, "an object that was taken over", users)
	// Who deletes it gives it back.
	drop[*service](w, "v1.example.org")
	users["v1.example.org"] = custom
	until(w, "a deleted object", users)
}

// TestBegin checks the built-in objects: what a start corrects, and that nothing else does.
func TestBegin(t *testing.T) {
	w := registrytest.New(t)
	left := made("v1beta1.left.example.org", 17000, 9)
	left.Labels = map[string]string{label: "onstart"}
	old := made("v1.old.example.org", 1000, 100)
	old.Labels = map[string]string{label: "true"}
	for _, one := range []*service{left, old, made("v1.mine.example.org", 10, 10), made("v1.batch", 10, 10)} {
		registrytest.Create(w, "", one)
	}
	run(w)
	until(w, "the start", map[string]string{"v1.mine.example.org": "10/10 "})
	apps := registrytest.Get[*service](w, "", "v1.apps")
	if apps.Spec.GroupPriorityMinimum != 17800 || apps.Labels[label] != "onstart" || len(apps.Status.Conditions) != 1 || apps.Status.Conditions[0].Reason != "Local" {
		t.Errorf("v1.apps is %+v", apps)
	}
	if batch := registrytest.Get[*service](w, "", "v1.batch"); batch.Spec.GroupPriorityMinimum != 10 {
		t.Errorf("a user's v1.batch is now %+v", batch)
	}
	if _, err := registrytest.Update(w, "", "v1.apps", "", func(s *service) { s.Spec.VersionPriority = 7 }); err != nil {
		t.Fatal(err)
	}
	drop[*service](w, "v1.policy")
	registrytest.Create(w, "", left.DeepCopy())
	// When the next definition has its object, the keeper has seen all of that.
	registrytest.Create(w, "", defining("example.org", "eggs", "v1"))
	until(w, "a definition", map[string]string{"v1.mine.example.org": "10/10 ", "v1.example.org": custom, left.Name: "17000/9 onstart"})
	if got := registrytest.Get[*service](w, "", "v1.apps"); got.Spec.VersionPriority != 7 {
		t.Errorf("v1.apps was corrected without a start: %+v", got.Spec)
	}
	if _, err := registrytest.Of[*service](w).Get(t.Context(), "", "v1.policy"); !apierrors.IsNotFound(err) {
		t.Errorf("v1.policy is back without a start: %v", err)
	}
	if err := keeper(w).Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := registrytest.Get[*service](w, "", "v1.apps"); got.Spec.VersionPriority != 15 {
		t.Errorf("the next start did not correct v1.apps: %+v", got.Spec)
	}
	registrytest.Get[*service](w, "", "v1.policy")
}

// TestAnotherMetricsServer checks that a start makes no APIService of metrics, and leaves that of somebody's metrics
// server as it is.
func TestAnotherMetricsServer(t *testing.T) {
	const name = "v1beta1.metrics.k8s.io"
	w := registrytest.New(t)
	begin := func() {
		t.Helper()
		if err := keeper(w).Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	port := int32(443)
	// It could not be created if there was one.
	registrytest.Create(w, "", &service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: apiregistrationv1.APIServiceSpec{
		Group: "metrics.k8s.io", Version: "v1beta1", GroupPriorityMinimum: 100, VersionPriority: 7, InsecureSkipTLSVerify: true,
		Service: &apiregistrationv1.ServiceReference{Namespace: metav1.NamespaceSystem, Name: "metrics-server", Port: &port},
	}})
	begin()
	if given := registrytest.Get[*service](w, "", name); given.Spec.Service == nil || given.Spec.VersionPriority != 7 {
		t.Errorf("another's became %+v", given.Spec)
	}
}

// TestSeveral checks that the keepers of several apiservers agree: each object is created once, and none is
// deleted while a definition serves it.
func TestSeveral(t *testing.T) {
	w := registrytest.New(t)
	worlds := []*registrytest.World{w, w.Another(), w.Another()}
	for _, one := range worlds {
		run(one)
	}
	want := map[string]string{}
	for i := range 20 {
		group := fmt.Sprintf("g%d.example.org", i)
		registrytest.Create(worlds[i%3], "", defining(group, "eggs", "v1"))
		want["v1."+group] = custom
	}
	until(w, "many definitions", want)
	before := map[string]string{}
	for name := range want {
		before[name] = string(registrytest.Get[*service](w, "", name).UID)
	}
	for i := range 10 {
		undefine(worlds[i%3], fmt.Sprintf("eggs.g%d.example.org", i))
		delete(want, fmt.Sprintf("v1.g%d.example.org", i))
	}
	until(w, "half of them", want)
	for name := range want {
		if uid := string(registrytest.Get[*service](w, "", name).UID); uid != before[name] {
			t.Errorf("%s was deleted and created again", name)
		}
	}
}
