// Package apiservices keeps the APIService objects of the groups and versions that an apiserver serves
// itself, from which clients learn their priorities: of the built-in ones, and of custom resources.
package apiservices

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/garboard/garboard/libs/scheme"
)

// managed is the label with which Kubernetes marks the objects that an apiserver maintains: when it starts,
// or always.
const (
	managed = "kube-aggregator.kubernetes.io/automanaged"
	onStart = "onstart"
	always  = "true"
)

// customGroup and customVersion are the priority of all custom resources, as in kube-apiserver
// (crdregistration): after the built-in groups, and the versions in the order of their names.
const customGroup, customVersion = 1000, 100

// priority orders a group among the groups, and a version among those of its group; higher comes first.
type priority struct{ group, version int32 }

// priorities are those that kube-apiserver 1.37 gives its API versions (cmd/kube-apiserver/app and
// pkg/controlplane/apiserver, each aggregator.go), and for metrics.k8s.io that of metrics-server. That and the group
// of APIService have no object themselves.
func priorities() map[schema.GroupVersion]priority {
	of := map[schema.GroupVersion]priority{
		{Group: "", Version: "v1"}:                             {18000, 1},
		{Group: "autoscaling", Version: "v2"}:                  {17500, 30},
		{Group: "discovery.k8s.io", Version: "v1"}:             {16200, 15},
		{Group: "resource.k8s.io", Version: "v1"}:              {16200, 21},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: {16100, 21},
		{Group: "storagemigration.k8s.io", Version: "v1"}:      {15800, 15},
		{Group: "metrics.k8s.io", Version: "v1beta1"}:          {100, 100}, // metrics-server's
	}
	for group, minimum := range map[string]int32{
		"apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700, "authorization.k8s.io": 17600,
		"autoscaling": 17500, "batch": 17400, "certificates.k8s.io": 17300, "networking.k8s.io": 17200, "policy": 17100,
		"rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800, "apiextensions.k8s.io": 16700,
		"admissionregistration.k8s.io": 16700, "scheduling.k8s.io": 16600, "coordination.k8s.io": 16500, "node.k8s.io": 16300,
	} {
		of[schema.GroupVersion{Group: group, Version: "v1"}] = priority{minimum, 15}
	}
	return of
}

// firstGroup is above the priority of all APIServices: the group of APIService has none, and comes first.
const firstGroup = 20001

// Priority returns the priority of the group and version of a served kind.
func Priority(kind *scheme.Kind) (group, version int32) {
	switch found, known := priorities()[kind.GroupVersion()]; {
	case kind.Custom:
		return customGroup, customVersion
	case known:
		return found.group, found.version
	case kind.Group == apiregistrationv1.GroupName:
		return firstGroup, 0
	}
	return 0, 0
}

// Of returns an object for every group and version of the table's built-in kinds, in the table's
// order. metrics.k8s.io has none: it is served until somebody installs a metrics server, and Helm refuses to install
// one whose APIService exists.
func Of(table *scheme.Table) ([]*apiregistrationv1.APIService, error) {
	var services []*apiregistrationv1.APIService
	seen, known := map[schema.GroupVersion]bool{}, priorities()
	for _, kind := range table.Kinds() {
		gv := kind.GroupVersion()
		if gv.Group == apiregistrationv1.GroupName || gv.Group == metricsv1beta1.GroupName || seen[gv] || kind.Custom {
			continue
		}
		seen[gv] = true
		priority, ok := known[gv]
		if !ok {
			return nil, fmt.Errorf("building the APIService of %s: it has no priority", gv)
		}
		services = append(services, local(gv, priority, onStart))
	}
	return services, nil
}

// OfCustom returns an object for every group and version that a definition serves, by name. As in Kubernetes,
// the definition need not be established. A version that the table has built in already has an object of its
// own.
func OfCustom(table *scheme.Table, definitions []*apiextensionsv1.CustomResourceDefinition) map[string]*apiregistrationv1.APIService {
	builtIn := map[schema.GroupVersion]bool{}
	for _, kind := range table.Kinds() {
		if !kind.Custom {
			builtIn[kind.GroupVersion()] = true
		}
	}
	services := map[string]*apiregistrationv1.APIService{}
	for _, definition := range definitions {
		for _, version := range definition.Spec.Versions {
			gv := schema.GroupVersion{Group: definition.Spec.Group, Version: version.Name}
			if version.Served && !builtIn[gv] {
				one := local(gv, priority{customGroup, customVersion}, always)
				services[one.Name] = one
			}
		}
	}
	return services
}

// local returns the object of a group and version without a Service.
func local(gv schema.GroupVersion, of priority, kept string) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group, Labels: map[string]string{managed: kept}},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: of.group, VersionPriority: of.version,
		},
	}
}
