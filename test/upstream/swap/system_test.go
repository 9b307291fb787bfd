package swap

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// observed are the resources whose status kube-apiserver writes by itself when it starts. Ours does not.
func observed(resource schema.GroupVersionResource) bool {
	return resource.Resource == "flowschemas" || resource.Resource == "apiservices"
}

// ownedByClients returns what an apiserver must not change by itself.
func ownedByClients(resource schema.GroupVersionResource, obj *unstructured.Unstructured) map[string]any {
	if !observed(resource) {
		return obj.Object
	}
	delete(obj.Object, "status")
	obj.SetResourceVersion("")
	obj.SetManagedFields(slices.DeleteFunc(obj.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource == "status"
	}))
	return obj.Object
}

// settleStatuses waits until kube-apiserver has written the statuses that it writes, so that the test does not race
// with it.
func (c *cluster) settleStatuses() {
	c.Helper()
	if c.running.name() != kubeApiserver {
		return
	}
	for _, o := range c.objects {
		if !observed(o.resources[0]) {
			continue
		}
		harness.Await(c.T, "the status of "+o.String(), func() error {
			obj, err := c.at(o, 0).Get(c.Context(), o.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions"); len(conditions) == 0 {
				return fmt.Errorf("it has none: %v", obj.Object["status"])
			}
			return nil
		})
	}
}

// own are the keys that an apiserver writes by itself when it starts or stops.
var own = regexp.MustCompile(`^/registry/(` +
	// Who serves, and where.
	`masterleases/192\.0\.2\.1|peerserverleases/.*|leases/kube-system/apiserver-.*|endpointslices/default/kubernetes|services/endpoints/default/kubernetes|` +
	// Statuses: see observed.
	`flowschemas/.*|apiregistration\.k8s\.io/apiservices/.*|` +
	// The certificates by which others recognize its clients.
	`configmaps/kube-system/extension-apiserver-authentication|` +
	// Ours adds the user of its controllers.
	`(clusterrolebindings|rolebindings/[^/]*)/system:controller:.*|` +
	// The rights of a controller that Kubernetes lacks.
	`clusterroles/system:controller:local-path-provisioner|` +
	// The rights of what Kubernetes lacks: streams to nodes, their network, and metrics that the apiserver serves.
	`(clusterroles|clusterrolebindings)/system:garboard:(api-tunnel|node-network|aggregated-metrics-reader)|` +
	`serviceaccounts/kube-system/node-network|` +
	// Kubernetes' record of node ports, which it makes anew from the services.
	`ranges/servicenodeports|` +
	`events/.*)$`)

// wantUntouched reports keys that the start of an apiserver has changed, besides its own.
func (c *cluster) wantUntouched(before map[string]string) {
	c.Helper()
	after := c.etcd.Values(c.T, "/registry/")
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		was, is := before[key], after[key]
		if was == is || own.MatchString(key) {
			continue
		}
		switch {
		case was == "":
			c.Errorf("the start of %s created %s", c.running.name(), key)
		case is == "":
			c.Errorf("the start of %s deleted %s", c.running.name(), key)
		default:
			c.Errorf("the start of %s changed %s: %s", c.running.name(), key, differing(was, is))
		}
	}
}
