package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/kubernetes"

	"github.com/garboard/garboard/test/e2e/plane"
)

const (
	cogs = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: cogs.example.com},
	spec: {group: example.com, scope: Namespaced, names: {plural: cogs, singular: cog, kind: Cog, listKind: CogList}, versions: [
	{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {teeth: {type: integer}}}}},
	{name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {teeth: {type: integer}}}}}]}}`
	storeV2 = `[{"op": "replace", "path": "/spec/versions/0/storage", "value": false}, {"op": "replace", "path": "/spec/versions/1/storage", "value": true}]`
)

// cogsInEtcd returns the version in which etcd holds each object of the kind, and its revision.
func cogsInEtcd(t *testing.T, p *plane.Plane) (versions map[string]string, revisions map[string]int64) {
	t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{p.Etcd()}, DialTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = etcd.Close() }()
	res, err := etcd.Get(t.Context(), "/registry/example.com/cogs/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	versions, revisions = map[string]string{}, map[string]int64{}
	for _, kv := range res.Kvs {
		var held struct {
			APIVersion string
			Metadata   struct {
				Name       string
				Generation int
			}
			Teeth int
		}
		if err := json.Unmarshal(kv.Value, &held); err != nil {
			t.Fatalf("%s: %v", kv.Key, err)
		}
		if held.Teeth != 7 || held.Metadata.Generation != 1 {
			t.Errorf("etcd holds %s", kv.Value)
		}
		versions[held.Metadata.Name], revisions[held.Metadata.Name] = held.APIVersion, kv.ModRevision
	}
	return versions, revisions
}

// storedVersionsAreMigrated changes the version in which etcd holds a custom kind, and lets the controller rewrite what
// etcd holds in the one before. After that the definition can drop it.
func storedVersionsAreMigrated(t *testing.T, p *plane.Plane, _ kubernetes.Interface) {
	cog := func(version, name string) string {
		return fmt.Sprintf(`{apiVersion: example.com/%s, kind: Cog, metadata: {name: %s, namespace: default}, teeth: 7}`, version, name)
	}
	migrate := func(name, group, resource string) {
		t.Helper()
		expect(t, p, fmt.Sprintf(`{apiVersion: storagemigration.k8s.io/v1, kind: StorageVersionMigration, metadata: {name: %s},
			spec: {resource: {group: %q, resource: %s}}}`, name, group, resource), `created`, "create", "-f", "-")
		expect(t, p, "", `condition met`, "wait", "--for=condition=Succeeded", "--timeout=2m", "storageversionmigration/"+name)
		expect(t, p, "", `condition met`, "wait", "--for=condition=Running=False", "--timeout=2m", "storageversionmigration/"+name)
	}
	stored := func(want string) {
		t.Helper()
		if got := p.Must(t, "", "get", "crd", "cogs.example.com", "-o", "jsonpath={.status.storedVersions}"); got != want {
			t.Errorf("got the stored versions %s, want %s", got, want)
		}
	}
	expect(t, p, cogs, `created`, "create", "-f", "-")
	expect(t, p, "", `condition met`, "wait", "--for=condition=Established", "crd/cogs.example.com")
	for _, name := range []string{"a", "b"} {
		expect(t, p, cog("v1", name), `created`, "create", "-f", "-")
	}
	expect(t, p, cog("v2", "c"), `created`, "create", "-f", "-")
	expect(t, p, "", `patched`, "patch", "crd", "cogs.example.com", "--type=json", "-p", storeV2)
	plane.Eventually(t, "new objects to be stored as v2", func(context.Context) error {
		p.Kubectl(t, "", "delete", "cogs.v1.example.com", "late")
		p.Must(t, cog("v1", "late"), "create", "-f", "-")
		if held, _ := cogsInEtcd(t, p); held["late"] != "example.com/v2" {
			return fmt.Errorf("etcd holds %v", held)
		}
		return nil
	})
	stored(`["v1","v2"]`)
	held, before := cogsInEtcd(t, p)
	if held["a"] != "example.com/v1" || held["c"] != "example.com/v1" {
		t.Errorf("before the migration etcd holds %v", held)
	}

	migrate("cogs", "example.com", "cogs")
	held, after := cogsInEtcd(t, p)
	for _, name := range []string{"a", "b", "c", "late"} {
		if held[name] != "example.com/v2" || (after[name] == before[name]) != (name == "late") {
			t.Errorf("etcd holds %s as %s of revision %d, and had it at %d", name, held[name], after[name], before[name])
		}
	}
	expect(t, p, "", `^NAME +RESOURCE +STATUS\ncogs +cogs\.example\.com +Succeeded\n$`, "get", "storageversionmigrations")
	expect(t, p, "", `^The migration has succeeded and the stored versions have been updated$`, "get", "crd", "cogs.example.com", "-o",
		`jsonpath={.status.conditions[?(@.type=="StorageMigrating")].message}`)
	stored(`["v2"]`)
	expect(t, p, "", `patched`, "patch", "crd", "cogs.example.com", "--type=json", "-p", `[{"op": "remove", "path": "/spec/versions/0"}]`)

	migrate("again", "example.com", "cogs")
	if _, last := cogsInEtcd(t, p); !maps.Equal(last, after) {
		t.Errorf("another migration wrote objects: they are at %v, and were at %v", last, after)
	}
	stored(`["v2"]`)
	for _, resource := range []string{"configmaps", "secrets", "events"} {
		migrate(resource, "", resource)
	}
	names := p.Must(t, "", "get", "cogs", "-o", "jsonpath={.items[*].metadata.name}")
	if want := fmt.Sprint(slices.Sorted(maps.Keys(after))); "["+names+"]" != want {
		t.Errorf("got the objects %s, want %s", names, want)
	}
	expect(t, p, "", `deleted`, "delete", "storageversionmigrations", "--all")
	expect(t, p, "", `deleted`, "delete", "crd", "cogs.example.com")
}
