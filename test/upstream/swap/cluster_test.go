package swap

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// manager is the field manager of the test's writes.
const manager = "swap"

// cluster is what lies in an etcd, seen through whichever apiserver runs.
type cluster struct {
	*testing.T
	etcd    *etcdtest.Server
	table   *scheme.Table
	objects []object
	// stale are the keys of objects in an earlier stored version.
	stale map[string]bool

	running server
	config  *rest.Config
	http    *http.Client
	client  dynamic.Interface
}

// object is one object of the test, with all resources as which it can be read.
type object struct {
	resources       []schema.GroupVersionResource
	namespace, name string
	key             string // in etcd
}

func (o object) String() string {
	return fmt.Sprintf("%s %s", o.resources[0].GroupResource(), path.Join(o.namespace, o.name))
}

func (o object) as(resource schema.GroupVersionResource) string {
	return fmt.Sprintf("%s as %s", o, resource.GroupVersion())
}

// swapTo stops the running apiserver, if any, and starts another.
func (c *cluster) swapTo(next server) {
	c.Helper()
	if c.running != nil {
		c.http.CloseIdleConnections()
		c.running.stop()
	}
	c.running, c.config = next, next.start()
	c.config.WarningHandler = rest.NoWarnings{}
	var err error
	if c.http, err = rest.HTTPClientFor(c.config); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(c.http.CloseIdleConnections)
	if c.client, err = dynamic.NewForConfigAndClient(c.config, c.http); err != nil {
		c.Fatal(err)
	}
	c.settleStatuses()
}

func (c *cluster) at(o object, version int) dynamic.ResourceInterface {
	if o.namespace == "" {
		return c.client.Resource(o.resources[version])
	}
	return c.client.Resource(o.resources[version]).Namespace(o.namespace)
}

// add creates an object, of which the test takes care from now on.
func (c *cluster) add(obj *unstructured.Unstructured, key string, resources ...schema.GroupVersionResource) object {
	c.Helper()
	o := object{resources: resources, namespace: obj.GetNamespace()}
	created, err := c.at(o, 0).Create(c.Context(), obj, metav1.CreateOptions{FieldManager: manager})
	if err != nil {
		c.Fatalf("%s: creating %s %s/%s: %v", c.running.name(), resources[0], obj.GetNamespace(), obj.GetName(), err)
	}
	o.name = created.GetName()
	o.key = "/registry/" + path.Join(key, o.namespace, o.name)
	c.objects = append(c.objects, o)
	return o
}

// addBuiltIn creates an object of a built-in kind.
func (c *cluster) addBuiltIn(obj scheme.Object) object {
	c.Helper()
	kind := c.table.KindOf(obj)
	resources := []schema.GroupVersionResource{kind.GroupVersionResource()}
	for _, other := range c.table.Kinds() {
		if other != kind && !other.Virtual && !kind.Virtual && other.Storage == kind.Storage {
			resources = append(resources, other.GroupVersionResource())
		}
	}
	return c.add(loose(c.T, obj), kind.StoragePrefix, resources...)
}

// states are what the apiserver returns of all objects, in all their versions.
type states map[string]map[string]any

func (c *cluster) read() states {
	c.Helper()
	all := states{}
	for _, o := range c.objects {
		for i, resource := range o.resources {
			obj, err := c.at(o, i).Get(c.Context(), o.name, metav1.GetOptions{})
			if err != nil {
				c.Errorf("%s: reading %s as %s: %v", c.running.name(), o, resource.Version, err)
				continue
			}
			all[o.as(resource)] = ownedByClients(resource, obj)
		}
	}
	return all
}

// wantSame reports what the running apiserver reads otherwise than the one before it. Even the resourceVersions are the same,
// since no start of an apiserver writes to objects of users.
func (c *cluster) wantSame(before states) {
	c.Helper()
	now := c.read()
	for name := range before {
		if diff := cmp.Diff(before[name], now[name]); diff != "" {
			c.Errorf("%s reads %s otherwise (-before +now):\n%s", c.running.name(), name, diff)
		}
	}
	if len(before) != len(now) {
		c.Errorf("%s reads %d objects, there were %d", c.running.name(), len(now), len(before))
	}
}

// wantListed checks that lists have all objects, as they are read one by one.
func (c *cluster) wantListed(all states) {
	c.Helper()
	lists := map[schema.GroupVersionResource]map[string]map[string]any{}
	for _, o := range c.objects {
		for _, resource := range o.resources {
			if lists[resource] == nil {
				found, err := c.client.Resource(resource).List(c.Context(), metav1.ListOptions{})
				if err != nil {
					c.Errorf("%s: listing %s: %v", c.running.name(), resource, err)
					continue
				}
				lists[resource] = map[string]map[string]any{}
				for _, item := range found.Items {
					lists[resource][path.Join(item.GetNamespace(), item.GetName())] = ownedByClients(resource, &item)
				}
			}
			want := all[o.as(resource)]
			if diff := cmp.Diff(want, lists[resource][path.Join(o.namespace, o.name)]); diff != "" {
				c.Errorf("%s lists %s otherwise than it reads it (-read +listed):\n%s", c.running.name(), o, diff)
			}
		}
	}
}

// rewrite writes each object as it was read, and returns how etcd's values differ from those before. An apiserver
// writes to etcd only if its encoding of the object differs from what is there. Objects are written in their stored
// version: in another they get its defaults.
func (c *cluster) rewrite() (changed []string) {
	c.Helper()
	before := c.etcd.Values(c.T, "/registry/")
	for _, o := range c.objects {
		if c.stale[o.key] {
			continue
		}
		at := max(0, slices.IndexFunc(o.resources, func(resource schema.GroupVersionResource) bool {
			return strings.HasPrefix(form(before[o.key]), "JSON "+resource.GroupVersion().String()+" ")
		}))
		obj, err := c.at(o, at).Get(c.Context(), o.name, metav1.GetOptions{})
		if err != nil {
			c.Errorf("%s: reading %s: %v", c.running.name(), o, err)
			continue
		}
		if _, err := c.at(o, at).Update(c.Context(), obj, metav1.UpdateOptions{FieldManager: manager}); err != nil {
			c.Errorf("%s: writing %s as it is: %v", c.running.name(), o, err)
			continue
		}
		if after := c.etcd.Values(c.T, o.key)[o.key]; after != before[o.key] {
			changed = append(changed, fmt.Sprintf("%s: %s", o, differing(before[o.key], after)))
		}
	}
	return changed
}

// wantSameEncoding checks that an apiserver encodes each object as the other did, byte by byte.
func (c *cluster) wantSameEncoding() {
	c.Helper()
	for _, difference := range c.rewrite() {
		c.Errorf("%s encodes otherwise %s", c.running.name(), difference)
	}
}

// change annotates each object, and waits for the change in a watch that began before.
func (c *cluster) change(annotation string) {
	c.Helper()
	for _, o := range c.objects {
		if err := c.changeOne(o, annotation); err != nil {
			c.Errorf("%s: changing %s: %v", c.running.name(), o, err)
		}
	}
}

func (c *cluster) changeOne(o object, annotation string) error {
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	before, err := c.at(o, 0).Get(ctx, o.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", o.name).String()}
	list, err := c.at(o, 0).List(ctx, only)
	if err != nil {
		return err
	}
	only.ResourceVersion = list.GetResourceVersion()
	watching, err := c.at(o, 0).Watch(ctx, only)
	if err != nil {
		return err
	}
	defer watching.Stop()
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{"example.com/%s":"was here"}}}`, annotation)
	after, err := c.at(o, 0).Patch(ctx, o.name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
	if err != nil {
		return err
	}
	if before.GetUID() != after.GetUID() || before.GetResourceVersion() == after.GetResourceVersion() {
		return fmt.Errorf("the change leads from %s of %s to %s of %s",
			before.GetResourceVersion(), before.GetUID(), after.GetResourceVersion(), after.GetUID())
	}
	for event := range watching.ResultChan() {
		seen, err := meta.Accessor(event.Object)
		if err != nil {
			return fmt.Errorf("the watch sends %s %v", event.Type, event.Object)
		}
		if event.Type != watch.Modified {
			return fmt.Errorf("the watch sends %s", event.Type)
		}
		if seen.GetResourceVersion() != after.GetResourceVersion() {
			continue
		}
		if diff := cmp.Diff(after, event.Object); diff != "" {
			return fmt.Errorf("the watch sends another object (-written +sent):\n%s", diff)
		}
		return nil
	}
	return fmt.Errorf("the watch ended before the change came: %w", ctx.Err())
}
