// Package apiservices builds the APIService objects of the groups and versions that an apiserver
// serves itself, from which clients learn their priorities.
package apiservices

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/garboard/garboard/libs/scheme"
)

const (
	// managed is the label with which Kubernetes marks the objects that an apiserver creates when
	// it starts.
	managed, onStart = "kube-aggregator.kubernetes.io/automanaged", "onstart"
	// Kubernetes' version priorities: of most stable versions, of a newer stable version beside
	// another one, and of unstable versions.
	stable, newer, beta, alpha = 15, 30, 12, 9
)

// priorities are Kubernetes' priorities of its groups. The group of APIService has no object
// itself.
func priorities() map[string]int32 {
	return map[string]int32{
		"": 18000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700, "authorization.k8s.io": 17600,
		"autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100,
		"rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700,
		"admissionregistration.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500, "node.k8s.io": 16300,
		"discovery.k8s.io": 16200, "flowcontrol.apiserver.k8s.io": 16100, "resource.k8s.io": 15900,
		"storagemigration.k8s.io": 15800,
	}
}

// Of returns an object for every group and version of the table's built-in kinds, in the table's
// order.
func Of(table *scheme.Table) ([]*apiregistrationv1.APIService, error) {
	var services []*apiregistrationv1.APIService
	seen := map[schema.GroupVersion]bool{}
	for _, kind := range table.Kinds() {
		gv := kind.GroupVersion()
		if gv.Group == apiregistrationv1.GroupName || seen[gv] || kind.Custom {
			continue
		}
		seen[gv] = true
		priority, ok := priorities()[gv.Group]
		if !ok {
			return nil, fmt.Errorf("building the APIService of %s: the group has no priority", gv)
		}
		services = append(services, &apiregistrationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group, Labels: map[string]string{managed: onStart}},
			Spec: apiregistrationv1.APIServiceSpec{
				Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: priority, VersionPriority: versionPriority(gv),
			},
		})
	}
	return services, nil
}

func versionPriority(gv schema.GroupVersion) int32 {
	switch {
	case gv.Group == "":
		return 1
	case gv.Group == "flowcontrol.apiserver.k8s.io" && gv.Version == "v1":
		return 21
	case gv.Version == "v1":
		return stable
	case gv.Version == "v2":
		return newer
	case len(gv.Version) > 6 && gv.Version[2:6] == "beta":
		return beta
	}
	return alpha
}
