package swap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/samples"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

const (
	// namespace has the custom resources, and objects about several of whose properties tests ask.
	namespace = "swap"
	// generated begins the names that an apiserver generates.
	generated = "generated-"
)

// addNamespace creates a namespace with the service account that controllers would create.
func (c *cluster) addNamespace(name string) {
	c.Helper()
	c.addBuiltIn(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	c.addBuiltIn(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}})
}

// addSamples creates an object of every kind that has a Go type and is stored.
func (c *cluster) addSamples() {
	c.Helper()
	set, err := samples.New(c.table)
	if err != nil {
		c.Fatal(err)
	}
	for i, kind := range c.table.Kinds() {
		if kind.Virtual || kind.Custom {
			continue
		}
		home := ""
		if kind.Namespaced {
			home = strings.ReplaceAll(kind.Resource+"-"+kind.Group+"-"+kind.Version, ".", "-")
			c.addNamespace(home)
		}
		// Two versions of a kind need two names.
		c.addBuiltIn(set.Nth(kind, i, home))
	}
}

// documents returns the objects in a file of testdata.
func (c *cluster) documents(file string) []*unstructured.Unstructured {
	c.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		c.Fatal(err)
	}
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var all []*unstructured.Unstructured
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			c.Fatal(err)
		}
		text, err := yaml.ToJSON(document)
		if err != nil {
			c.Fatal(err)
		}
		// UnmarshalJSON would take an object with a field "items" for a list.
		obj := &unstructured.Unstructured{}
		if err := unstructuredFrom(text, obj); err != nil {
			c.Fatalf("%s: %v", file, err)
		}
		all = append(all, obj)
	}
}

func unstructuredFrom(text []byte, into *unstructured.Unstructured) error {
	_, _, err := unstructured.UnstructuredJSONScheme.Decode(text, nil, into)
	return err
}

// addDefinitions creates the definitions of the file.
func (c *cluster) addDefinitions(webhook *apiextensionsv1.WebhookClientConfig) {
	c.Helper()
	definitions := scheme.For[*apiextensionsv1.CustomResourceDefinition](c.table)
	for _, definition := range c.documents("definitions.yaml") {
		if strategy, _, _ := unstructured.NestedString(definition.Object, "spec", "conversion", "strategy"); strategy == "Webhook" {
			client := map[string]any{"url": *webhook.URL, "caBundle": encoded(webhook.CABundle)}
			if err := unstructured.SetNestedMap(definition.Object, client, "spec", "conversion", "webhook", "clientConfig"); err != nil {
				c.Fatal(err)
			}
		}
		o := c.add(definition, definitions.StoragePrefix, definitions.GroupVersionResource())
		c.settle(o)
	}
}

// addRelics puts into etcd what only apiservers of long ago accepted.
func (c *cluster) addRelics() {
	c.Helper()
	resources := []schema.GroupVersionResource{
		apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"),
		{Group: "swap.example.com", Version: "v1", Resource: "relics"},
	}
	for i, obj := range c.documents("relics.yaml") {
		o := object{resources: resources[i : i+1], namespace: obj.GetNamespace(), name: obj.GetName()}
		o.key = "/registry/" + path.Join(resources[i].Group, resources[i].Resource, o.namespace, o.name)
		value, err := obj.MarshalJSON()
		if err != nil {
			c.Fatal(err)
		}
		c.etcd.Put(c.T, map[string]string{o.key: string(value)})
		c.objects = append(c.objects, o)
	}
}

// settle waits until the apiserver has decided about a definition's names, and serves it if it accepts them.
func (c *cluster) settle(o object) {
	c.Helper()
	harness.Await(c.T, o.String()+" to be decided about", func() error {
		obj, err := c.at(o, 0).Get(c.Context(), o.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		status := map[string]string{}
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		for _, one := range conditions {
			condition, _ := one.(map[string]any)
			status[fmt.Sprint(condition["type"])] = fmt.Sprint(condition["status"])
		}
		if status["NamesAccepted"] == "False" && status["Established"] == "False" {
			return nil
		}
		if status["Established"] != "True" {
			return fmt.Errorf("its conditions are %v", status)
		}
		// Kubernetes serves it a moment later.
		group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "plural")
		versions, _, _ := unstructured.NestedSlice(obj.Object, "spec", "versions")
		for _, one := range versions {
			version, _ := one.(map[string]any)
			if version["served"] != true {
				continue
			}
			resource := schema.GroupVersionResource{Group: group, Version: fmt.Sprint(version["name"]), Resource: plural}
			if _, err := c.client.Resource(resource).List(c.Context(), metav1.ListOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// resourcesOf are the resources of custom kinds: the versions that are served.
func resourcesOf(kind schema.GroupVersionKind) (namespaced bool, resources []schema.GroupVersionResource) {
	plural := strings.ToLower(kind.Kind) + "s"
	versions := map[string][]string{"wheels": {"v1beta1", "v1"}, "axles": {"v1", "v2"}}[plural]
	resources = []schema.GroupVersionResource{kind.GroupVersion().WithResource(plural)}
	for _, version := range versions {
		if version != kind.Version {
			resources = append(resources, schema.GroupVersionResource{Group: kind.Group, Version: version, Resource: plural})
		}
	}
	return plural != "plants", resources
}

// addCustom creates a custom resource.
func (c *cluster) addCustom(obj *unstructured.Unstructured) object {
	c.Helper()
	namespaced, resources := resourcesOf(obj.GroupVersionKind())
	if namespaced {
		obj.SetNamespace(namespace)
	}
	return c.add(obj, resources[0].Group+"/"+resources[0].Resource, resources...)
}

// addResources creates the custom resources of the file, and some whose metadata is special: of generated names, with
// owners, and applied.
func (c *cluster) addResources() {
	c.Helper()
	for _, obj := range c.documents("resources.yaml") {
		c.addCustom(obj)
	}
	gear := func(name string) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		obj.SetAPIVersion("swap.example.com/v1")
		obj.SetKind("Gear")
		obj.SetName(name)
		return obj
	}
	unnamed := gear("")
	unnamed.SetGenerateName(generated)
	owner := c.addCustom(unnamed)

	created, err := c.at(owner, 0).Get(c.Context(), owner.name, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	yes := true
	owned := gear("owned")
	owned.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: "swap.example.com/v1", Kind: "Gear", Name: owner.name, UID: created.GetUID(), BlockOwnerDeletion: &yes, Controller: &yes,
	}})
	c.addCustom(owned)

	applied := c.addCustom(gear("applied"))
	c.apply(applied, map[string]any{"color": "red", "teeth": int64(20), "parts": []any{map[string]any{"name": "x"}, map[string]any{"name": "y"}}})
	status := gear("applied")
	status.Object["status"] = map[string]any{"replicas": int64(1), "selector": "a=b", "phase": "Running"}
	if _, err := c.at(applied, 0).ApplyStatus(c.Context(), applied.name, status, metav1.ApplyOptions{FieldManager: "applier", Force: true}); err != nil {
		c.Fatal(err)
	}
}

// apply applies a spec.
func (c *cluster) apply(o object, spec map[string]any) *unstructured.Unstructured {
	c.Helper()
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": o.resources[0].GroupVersion().String(), "kind": "Gear", "metadata": map[string]any{"name": o.name}, "spec": spec,
	}}
	after, err := c.at(o, 0).Apply(c.Context(), o.name, obj, metav1.ApplyOptions{FieldManager: "applier", Force: true})
	if err != nil {
		c.Fatalf("%s: applying %s: %v", c.running.name(), o, err)
	}
	return after
}
