package swap

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

func (c *cluster) typed() kubernetes.Interface {
	c.Helper()
	clients, err := kubernetes.NewForConfigAndClient(c.config, c.http)
	if err != nil {
		c.Fatal(err)
	}
	return clients
}

// token returns a token of a service account.
func (c *cluster) token() string {
	c.Helper()
	request, err := c.typed().CoreV1().ServiceAccounts(namespace).CreateToken(c.Context(), "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return request.Status.Token
}

// wantAuthenticated checks that a token that another apiserver issued is good.
func (c *cluster) wantAuthenticated(token string) {
	c.Helper()
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = token
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		c.Fatal(err)
	}
	defer client.CloseIdleConnections()
	clients, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		c.Fatal(err)
	}
	review, err := clients.AuthenticationV1().SelfSubjectReviews().Create(c.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username != "system:serviceaccount:"+namespace+":default" {
		c.Errorf("%s takes the token for %+v: %v", c.running.name(), review, err)
	}
}

// serve creates services, which get addresses and node ports, and checks that it cannot get those of the services that
// exist.
func (c *cluster) serve() {
	c.Helper()
	services := c.typed().CoreV1().Services(namespace)
	existing, err := services.List(c.Context(), metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	for _, old := range existing.Items {
		port := corev1.ServicePort{Name: "http", Port: 80, NodePort: old.Spec.Ports[0].NodePort}
		for what, spec := range map[string]corev1.ServiceSpec{
			"address":   {Type: corev1.ServiceTypeClusterIP, ClusterIP: old.Spec.ClusterIP, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
			"node port": {Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{port}},
		} {
			again := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "thief"}, Spec: spec}
			if _, err := services.Create(c.Context(), again, metav1.CreateOptions{}); err == nil || !strings.Contains(err.Error(), "already allocated") {
				c.Errorf("%s gives the %s of %s to another service: %v", c.running.name(), what, old.Name, err)
			}
		}
	}
	for i := range 3 {
		c.addBuiltIn(&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("web-%d-%d", len(existing.Items), i)},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
		})
	}
	c.wantAllocated()
}

// wantAllocated checks that each address of a service is recorded for it, and that nothing is given twice.
func (c *cluster) wantAllocated() {
	c.Helper()
	services, err := c.typed().CoreV1().Services("").List(c.Context(), metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	addresses, err := c.typed().NetworkingV1().IPAddresses().List(c.Context(), metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	recorded, ports := map[string]string{}, map[int32]string{}
	for _, address := range addresses.Items {
		recorded[address.Name] = address.Spec.ParentRef.Namespace + "/" + address.Spec.ParentRef.Name
	}
	given := map[string]string{}
	for _, service := range services.Items {
		name := service.Namespace + "/" + service.Name
		for _, address := range service.Spec.ClusterIPs {
			if address == corev1.ClusterIPNone {
				continue
			}
			if given[address] != "" || recorded[address] != name {
				c.Errorf("%s: %s of %s is recorded for %q, and %q has it", c.running.name(), address, name, recorded[address], given[address])
			}
			given[address] = name
		}
		for _, port := range service.Spec.Ports {
			if other := ports[port.NodePort]; port.NodePort != 0 && other != "" {
				c.Errorf("%s: %s and %s have the node port %d", c.running.name(), name, other, port.NodePort)
			}
			ports[port.NodePort] = name
		}
	}
}

func (c *cluster) find(resource, name string) object {
	c.Helper()
	for _, o := range c.objects {
		if o.resources[0].Resource == resource && o.name == name {
			return o
		}
	}
	c.Fatalf("the test has no %s %s", resource, name)
	return object{}
}

func (c *cluster) forget(gone func(object) bool) { c.objects = slices.DeleteFunc(c.objects, gone) }

// applyAgain checks that who applied an object on another apiserver still owns its fields: what he leaves out now goes.
func (c *cluster) applyAgain() {
	c.Helper()
	after := c.apply(c.find("gears", "applied"), map[string]any{"color": "red", "parts": []any{map[string]any{"name": "x"}}})
	spec, _, _ := unstructured.NestedMap(after.Object, "spec")
	if parts, _ := spec["parts"].([]any); len(parts) != 1 || spec["teeth"] != int64(8) {
		c.Errorf("%s: after the second application the spec is %v", c.running.name(), spec)
	}
}

// scale changes an object by its subresource.
func (c *cluster) scale() {
	c.Helper()
	o := c.find("gears", "plain")
	after, err := c.at(o, 0).Patch(c.Context(), o.name, types.MergePatchType, []byte(`{"spec":{"replicas":7}}`), metav1.PatchOptions{}, "scale")
	if err != nil {
		c.Fatalf("%s: scaling %s: %v", c.running.name(), o, err)
	}
	if replicas, _, _ := unstructured.NestedInt64(after.Object, "spec", "replicas"); replicas != 7 {
		c.Errorf("%s: the scale is %v", c.running.name(), after.Object)
	}
}

// storeNewer makes another version of a kind the stored one. Its objects stay as they are until someone writes them.
func (c *cluster) storeNewer() {
	c.Helper()
	o := c.find("customresourcedefinitions", "wheels.swap.example.com")
	body := `[{"op":"replace","path":"/spec/versions/1/storage","value":false},{"op":"replace","path":"/spec/versions/2/storage","value":true}]`
	if _, err := c.at(o, 0).Patch(c.Context(), o.name, types.JSONPatchType, []byte(body), metav1.PatchOptions{}); err != nil {
		c.Fatalf("%s: changing the stored version: %v", c.running.name(), err)
	}
	newer := c.find("wheels", "stable")
	harness.Await(c.T, "the other version to be stored", func() error {
		if err := c.changeOne(newer, "newer"); err != nil {
			return err
		}
		if got := form(c.etcd.Values(c.T, newer.key)[newer.key]); !strings.Contains(got, "swap.example.com/v1 ") {
			return fmt.Errorf("it is stored as %s", got)
		}
		_, err := c.at(newer, 0).Patch(c.Context(), newer.name, types.MergePatchType, []byte(`{"metadata":{"annotations":null}}`), metav1.PatchOptions{})
		return err
	})
	c.stale = map[string]bool{c.find("wheels", "beta").key: true}
}

// deleteHeld deletes an object that a finalizer holds.
func (c *cluster) deleteHeld() {
	c.Helper()
	o := c.find("gears", "held")
	if err := c.at(o, 0).Delete(c.Context(), o.name, metav1.DeleteOptions{}); err != nil {
		c.Fatalf("%s: deleting %s: %v", c.running.name(), o, err)
	}
}

// release removes the finalizer, with which the object goes.
func (c *cluster) release() {
	c.Helper()
	o := c.find("gears", "held")
	if _, err := c.at(o, 0).Patch(c.Context(), o.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		c.Fatalf("%s: releasing %s: %v", c.running.name(), o, err)
	}
	if left := c.etcd.Values(c.T, o.key); len(left) > 0 {
		c.Errorf("%s: etcd still has %v", c.running.name(), slices.Collect(maps.Keys(left)))
	}
	c.forget(func(other object) bool { return other.key == o.key })
}

// removeDefinition deletes a definition, with which its objects go.
func (c *cluster) removeDefinition(resource schema.GroupResource) {
	c.Helper()
	o := c.find("customresourcedefinitions", resource.String())
	if err := c.at(o, 0).Delete(c.Context(), o.name, metav1.DeleteOptions{}); err != nil {
		c.Fatalf("%s: deleting %s: %v", c.running.name(), o, err)
	}
	harness.Await(c.T, o.String()+" to go with its objects", func() error {
		if _, err := c.at(o, 0).Get(c.Context(), o.name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading it: %w", err)
		}
		if left := c.etcd.Values(c.T, "/registry/"+resource.Group+"/"+resource.Resource+"/"); len(left) > 0 {
			return fmt.Errorf("etcd still has %v", slices.Collect(maps.Keys(left)))
		}
		return nil
	})
	c.forget(func(other object) bool { return other.key == o.key || other.resources[0].GroupResource() == resource })
}
