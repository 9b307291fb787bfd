package storageversionmigrator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/customkinds"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// applying is an API that also applies the status of definitions, which the one in memory cannot.
type applying struct {
	client.Interface
	plane *controltest.Plane

	mu      sync.Mutex
	applied []string // the fields that each apply wrote
}

func (a *applying) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	if call.PatchType != types.ApplyYAMLPatchType {
		return a.Interface.Do(ctx, call, into)
	}
	opts := call.Options.(*metav1.PatchOptions)
	if call.Kind.Kind != "CustomResourceDefinition" || call.Subresource != "status" || opts.FieldManager != "migration-runner-controller" || !*opts.Force {
		return fmt.Errorf("got the apply %+v with %+v", call, opts)
	}
	var sent apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(call.Patch, &sent); err != nil {
		return err
	}
	definitions := client.Of[definition](a.plane.Client)
	current, err := definitions.Get(ctx, "", call.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if sent.ResourceVersion != current.ResourceVersion {
		return apierrors.NewConflict(call.Kind.GroupResource(), call.Name, fmt.Errorf("it is at %s", current.ResourceVersion))
	}
	if current.Status.StoredVersions = sent.Status.StoredVersions; len(sent.Status.StoredVersions) == 0 {
		return apierrors.NewBadRequest("must have at least one stored version")
	}
	var text string
	for _, condition := range sent.Status.Conditions {
		apihelpers.SetCRDCondition(current, condition)
		text = fmt.Sprintf("%s=%s %s: %s, generation %d, stored %v", condition.Type, condition.Status, condition.Reason, condition.Message,
			condition.ObservedGeneration, sent.Status.StoredVersions)
	}
	a.mu.Lock()
	a.applied = append(a.applied, text)
	a.mu.Unlock()
	_, err = definitions.UpdateStatus(ctx, current, metav1.UpdateOptions{})
	return err
}

// world is a plane with the controller.
type world struct {
	t *testing.T
	*controltest.Plane
	api *applying
}

func newWorld(t *testing.T, objs ...scheme.Object) *world {
	p := controltest.New(t, objs...)
	w := &world{t: t, Plane: p, api: &applying{Interface: p.Config.Client, plane: p}}
	p.Config.Client = w.api
	p.Allow("list patch *", "get apiextensions.k8s.io/customresourcedefinitions", "update storagemigration.k8s.io/storageversionmigrations/status")
	p.Declare(New)
	return w
}

func (w *world) begin(name, group, resource string) {
	w.t.Helper()
	controltest.Create(w.Plane, &storagemigrationv1.StorageVersionMigration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagemigrationv1.StorageVersionMigrationSpec{Resource: metav1.GroupResource{Group: group, Resource: resource}},
	})
}

// want checks the conditions of a migration, as "type=status reason: message".
func (w *world) want(name string, want ...string) {
	w.t.Helper()
	m := controltest.Get[migration](w.Plane, "", name)
	var got []string
	for _, condition := range m.Status.Conditions {
		got = append(got, fmt.Sprintf("%s=%s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message))
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("migration %s: got conditions\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const (
	begun     = "Running=True MigrationRunning: The migration is running"
	ended     = "Running=False MigrationCompleted: Migration completed"
	succeeded = "Succeeded=True StorageVersionMigrationSucceeded: Migration completed"
)

// patches returns the names of the objects of a resource that were patched, in order.
func (w *world) patches(resource string) []string {
	var names []string
	for _, call := range w.Writes() {
		if call.Verb == "patch" && call.Kind.Resource == resource {
			names = append(names, call.Name)
		}
	}
	return names
}

func configMaps(n int) []scheme.Object {
	objs := make([]scheme.Object, n)
	for i := range objs {
		objs[i] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("c%04d", i)}}
	}
	return objs
}

// TestEveryObjectIsPatched migrates more objects than a page has.
func TestEveryObjectIsPatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, configMaps(page+1)...)
		w.Start()
		var messages []string
		w.Fail(func(call client.Call) error {
			if m, ok := call.Body.(migration); ok && call.Verb == "update" {
				messages = append(messages, meta.FindStatusCondition(m.Status.Conditions, "Running").Message+" at "+m.Status.ResourceVersion)
			}
			return nil
		})
		w.begin("m", "", "configmaps")
		time.Sleep(time.Second)
		w.want("m", ended, succeeded)
		m := controltest.Get[migration](w.Plane, "", "m")
		at := " at " + m.Status.ResourceVersion
		if want := []string{
			"The migration is running at ", "The migration is running" + at,
			fmt.Sprintf("The migration is running, %d objects verified migrated%s", page+1, at), "Migration completed" + at,
		}; !slices.Equal(messages, want) {
			t.Errorf("got the messages %q, want %q", messages, want)
		}
		if names := w.patches("configmaps"); len(names) != page+1 || names[0] != "c0000" || names[page] != fmt.Sprintf("c%04d", page) {
			t.Errorf("%d objects were patched: %v", len(names), names)
		}
		one := controltest.Get[*corev1.ConfigMap](w.Plane, "default", "c0007")
		for _, call := range w.Writes() {
			want := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":%q,"uid":%q}}`, one.ResourceVersion, one.UID)
			if call.Name == one.Name && (call.PatchType != types.MergePatchType || string(call.Patch) != want || call.Subresource != "" ||
				call.Options.(*metav1.PatchOptions).FieldManager != "storage-version-migrator-controller") {
				t.Errorf("got the patch %s of type %s with %+v, want %s", call.Patch, call.PatchType, call.Options, want)
			}
		}
	})
}

// TestMigrationsTakeTurns checks that migrations of one resource run one after the other, the oldest first, and
// others meanwhile; and that a deleted one does not hold up the next.
func TestMigrationsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, slices.Concat(configMaps(2), []scheme.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}})...)
		w.Start()
		var mu sync.Mutex
		closed := true
		w.Fail(func(call client.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if closed && call.Verb == "patch" && call.Kind.Resource == "configmaps" {
				return apierrors.NewServiceUnavailable("closed")
			}
			return nil
		})
		w.begin("first", "", "configmaps")
		time.Sleep(5 * time.Second)
		w.begin("z-next", "", "configmaps")
		time.Sleep(5 * time.Second)
		w.begin("a-last", "", "configmaps")
		w.begin("secrets", "", "secrets")
		time.Sleep(10 * time.Second)
		w.want("first", begun+", 2/2 objects not yet migrated; transient error: closed")
		w.want("z-next")
		w.want("a-last")
		w.want("secrets", ended, succeeded)
		w.Remove(controltest.Get[migration](w.Plane, "", "first"))
		time.Sleep(30 * time.Second)
		w.want("z-next", begun+", 2/2 objects not yet migrated; transient error: closed")
		w.want("a-last")
		mu.Lock()
		closed = false
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		w.want("z-next", ended, succeeded)
		w.want("a-last", ended, succeeded)
	})
}

// TestObjectsThatNeedNoPatch checks that an object that was written since the migration began is left alone, and
// that one that has changed or gone when it is patched is no fault.
func TestObjectsThatNeedNoPatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, configMaps(4)...)
		w.Start()
		of := scheme.For[*corev1.ConfigMap](w.Table()).GroupResource()
		w.Fail(func(call client.Call) error {
			switch {
			case call.Verb == "list" && call.Kind.Resource == "configmaps" && call.Options.(*metav1.ListOptions).Limit == page:
				changed := controltest.Get[*corev1.ConfigMap](w.Plane, "default", "c0000")
				changed.Data = map[string]string{"a": "b"}
				w.Load(changed)
			case call.Verb == "patch" && call.Name == "c0001":
				return apierrors.NewConflict(of, call.Name, fmt.Errorf("it has changed"))
			case call.Verb == "patch" && call.Name == "c0002":
				return apierrors.NewNotFound(of, call.Name)
			}
			return nil
		})
		w.begin("m", "", "configmaps")
		time.Sleep(time.Second)
		w.want("m", ended, succeeded)
		if names := w.patches("configmaps"); !slices.Equal(names, []string{"c0001", "c0002", "c0003"}) {
			t.Errorf("got patches of %v", names)
		}
	})
}

// TestFaults checks which errors end a migration.
func TestFaults(t *testing.T) {
	of := schema.GroupResource{Resource: "configmaps"}
	const failed = "Failed=True StorageVersionMigrationFailed: "
	for name, tc := range map[string]struct {
		fault error
		times int // how often it occurs; always if 0
		want  []string
	}{
		"refused": {apierrors.NewForbidden(of, "c0001", fmt.Errorf("no")), 0, []string{
			ended, failed + `2/3 not yet migrated. migration encountered unhandled error: configmaps "c0001" is forbidden: no`,
		}},
		"invalid, though it is stored": {apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "c0001", nil), 0, []string{
			ended, failed + `2/3 not yet migrated. migration encountered unhandled error: ConfigMap "c0001" is invalid`,
		}},
		"too many requests":  {apierrors.NewTooManyRequests("later", 3), 2, []string{ended, succeeded}},
		"a webhook is down":  {apierrors.NewInternalError(fmt.Errorf("no answer")), 2, []string{ended, succeeded}},
		"unavailable":        {apierrors.NewServiceUnavailable("no"), 2, []string{ended, succeeded}},
		"no connection":      {fmt.Errorf("connection refused"), 2, []string{ended, succeeded}},
		"too slow":           {apierrors.NewTimeoutError("slow", 1), 2, []string{ended, succeeded}},
		"it does not end":    {apierrors.NewInternalError(fmt.Errorf("no answer")), 0, []string{begun + ", 2/3 objects not yet migrated; transient error: Internal error occurred: no answer"}},
		"the server is slow": {apierrors.NewServerTimeout(of, "patch", 2), 1, []string{ended, succeeded}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, configMaps(3)...)
				w.Start()
				times := 0
				w.Fail(func(call client.Call) error {
					if call.Verb != "patch" || call.Name != "c0001" || tc.times > 0 && times == tc.times {
						return nil
					}
					times++
					return tc.fault
				})
				w.begin("m", "", "configmaps")
				time.Sleep(time.Minute)
				w.want("m", tc.want...)
				if tc.times > 0 && times != tc.times {
					t.Errorf("it was tried %d times", times)
				}
			})
		})
	}
}

// TestResourcesThatCannotBeMigrated checks what becomes of migrations of resources that are not served or not stored.
func TestResourcesThatCannotBeMigrated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Start()
		w.begin("unknown", "", "foo")
		w.begin("virtual", "authentication.k8s.io", "tokenreviews")
		time.Sleep(30 * time.Second)
		w.want("unknown", begun)
		w.want("virtual", ended, `Failed=True StorageVersionMigrationFailed: resource "authentication.k8s.io/v1, Resource=tokenreviews" does not support discovery operations: [update patch list]`)
		time.Sleep(time.Minute)
		w.want("unknown", ended, "Failed=True StorageVersionMigrationFailed: resource does not exist in discovery")
		if fails := w.Writes(); len(fails) != 8 {
			t.Errorf("got %d writes, want 8", len(fails))
		}
	})
}

// TestListsThatEtcdHasCompacted checks that a migration goes on with the token of the error.
func TestListsThatEtcdHasCompacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, configMaps(2*page+1)...)
		w.Start()
		pages := []string{}
		w.Fail(func(call client.Call) error {
			opts, ok := call.Options.(*metav1.ListOptions)
			if !ok || call.Verb != "list" || opts.Limit != page {
				return nil
			}
			if pages = append(pages, opts.Continue); len(pages) != 2 {
				return nil
			}
			w.Fail(nil) // The hook holds no lock: a list of the same page gives the newest token.
			expired := apierrors.NewResourceExpired("compacted")
			expired.ErrStatus.Continue = opts.Continue
			return expired
		})
		w.begin("m", "", "configmaps")
		time.Sleep(time.Second)
		w.want("m", ended, succeeded)
		if names := w.patches("configmaps"); len(names) != 2*page+1 || len(pages) != 2 {
			t.Errorf("got %d patches after the pages %q", len(names), pages)
		}
	})
}

// gadgets is a definition whose objects etcd held as v1 and holds as v2 from now on.
func gadgets() *apiextensionsv1.CustomResourceDefinition {
	of := controltest.Definition("Gadget", "v1", "v2")
	of.Spec.Versions[0].Storage, of.Spec.Versions[1].Storage = false, true
	of.Generation, of.Status.StoredVersions = 3, []string{"v1", "v2"}
	return of
}

// TestCustomResources checks what a migration writes into a definition, for each way in which it may end.
func TestCustomResources(t *testing.T) {
	const running = "StorageMigrating=True MigrationRunning: Migration m is running, generation 3, stored [v1 v2]"
	for name, tc := range map[string]struct {
		during func(w *world) error // while an object is patched
		stored []string
		ends   []string
		want   string
	}{
		"it succeeds": {
			func(*world) error { return nil }, []string{"v2"}, []string{ended, succeeded},
			"StorageMigrating=False MigrationSucceeded: The migration has succeeded and the stored versions have been updated, generation 3, stored [v2]",
		},
		"the definition changes meanwhile": {
			func(w *world) error {
				of := controltest.Get[definition](w.Plane, "", "gadgets.example.com")
				of.Generation = 4
				w.Load(of)
				return nil
			}, []string{"v1", "v2"}, []string{ended, succeeded},
			"StorageMigrating=False MigrationSucceeded: The migration has succeeded but the stored versions have not been updated due to a generation mismatch, generation 4, stored [v1 v2]",
		},
		"it fails": {
			func(*world) error { return apierrors.NewBadRequest("no") }, []string{"v1", "v2"},
			[]string{ended, "Failed=True StorageVersionMigrationFailed: 1/1 not yet migrated. migration encountered unhandled error: no"},
			"StorageMigrating=False MigrationFailed: The migration has failed, generation 3, stored [v1 v2]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, gadgets())
				kinds, err := customkinds.Kinds(gadgets())
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Table().Install(kinds...); err != nil {
					t.Fatal(err)
				}
				made := controltest.Custom("Gadget", metav1.ObjectMeta{Namespace: "default", Name: "g"})
				made.GetObjectKind().SetGroupVersionKind(kinds[1].GroupVersionKind)
				w.Load(made)
				w.Fail(func(call client.Call) error {
					if call.Verb == "patch" && call.Kind.Resource == "gadgets" {
						if call.Kind.Version != "v2" {
							t.Errorf("a patch of %s", call.Kind.Version)
						}
						return tc.during(w)
					}
					return nil
				})
				w.Start()
				w.begin("m", "example.com", "gadgets")
				time.Sleep(time.Second)
				w.want("m", tc.ends...)
				if want := []string{running, tc.want}; !slices.Equal(w.api.applied, want) {
					t.Errorf("got the applies\n%s\nwant\n%s", strings.Join(w.api.applied, "\n"), strings.Join(want, "\n"))
				}
				of := controltest.Get[definition](w.Plane, "", "gadgets.example.com")
				if !slices.Equal(of.Status.StoredVersions, tc.stored) {
					t.Errorf("the definition has the stored versions %v, want %v", of.Status.StoredVersions, tc.stored)
				}
			})
		})
	}
}

// TestADefinitionThatOthersWrite checks that a migration begins though a definition changes while it is marked.
func TestADefinitionThatOthersWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gadgets())
		kinds, err := customkinds.Kinds(gadgets())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Table().Install(kinds...); err != nil {
			t.Fatal(err)
		}
		reads := 0
		w.Config.Client.(*applying).Interface = meddling{w.api.Interface, func() {
			if reads++; reads == 1 {
				of := controltest.Get[definition](w.Plane, "", "gadgets.example.com")
				of.Labels = map[string]string{"a": "b"}
				w.Load(of)
			}
		}}
		w.Start()
		w.begin("m", "example.com", "gadgets")
		time.Sleep(time.Second)
		w.want("m", ended, succeeded)
		if reads < 3 {
			t.Errorf("the definition was read %d times", reads)
		}
	})
}

// meddling calls a function after each read of a definition.
type meddling struct {
	client.Interface
	meddle func()
}

func (m meddling) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	err := m.Interface.Do(ctx, call, into)
	if call.Verb == "get" && call.Kind.Kind == "CustomResourceDefinition" {
		m.meddle()
	}
	return err
}
