// Package v1beta1 has the older version of the example operator's kind, which a webhook converts.
package v1beta1

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	v1 "github.com/garboard/garboard/test/operators/siteoperator/v1"
)

// GroupVersion is the group and version of this package's kinds.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: v1.GroupVersion().Group, Version: "v1beta1"}
}

// Site is a web site.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   Spec      `json:"spec"`
	Status v1.Status `json:"status,omitzero"`
}

// Spec is what a user wants of a site.
type Spec struct {
	// Host has the names of the site, separated by commas.
	Host string `json:"host"`
	// Paid tells whether the site is paid for.
	Paid bool `json:"paid"`
	// Replicas is the number of servers.
	Replicas *int32 `json:"replicas,omitempty"`
	// Page is the text of the page.
	Page string `json:"page,omitempty"`
}

var _ conversion.Convertible = (*Site)(nil)

// ConvertTo converts the site to v1.
func (s *Site) ConvertTo(to conversion.Hub) error {
	hub, ok := to.(*v1.Site)
	if !ok {
		return fmt.Errorf("converting a site: v1beta1 converts to v1, not to %T", to)
	}
	hub.ObjectMeta, hub.Status = *s.DeepCopy(), s.Status.DeepCopy()
	hub.Spec = v1.Spec{Hosts: strings.Split(s.Spec.Host, ","), Tier: v1.Free, Replicas: s.Spec.Replicas, Page: s.Spec.Page}
	if s.Spec.Paid {
		hub.Spec.Tier = v1.Paid
	}
	return nil
}

// ConvertFrom makes the site that of v1.
func (s *Site) ConvertFrom(from conversion.Hub) error {
	hub, ok := from.(*v1.Site)
	if !ok {
		return fmt.Errorf("converting a site: v1beta1 converts from v1, not from %T", from)
	}
	s.ObjectMeta, s.Status = *hub.ObjectMeta.DeepCopy(), hub.Status.DeepCopy()
	s.Spec = Spec{Host: strings.Join(hub.Spec.Hosts, ","), Paid: hub.Spec.Tier == v1.Paid, Replicas: hub.Spec.Replicas, Page: hub.Spec.Page}
	return nil
}

// AddToScheme registers the kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &Site{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}

// DeepCopyObject returns a copy.
func (s *Site) DeepCopyObject() runtime.Object {
	copied := &Site{TypeMeta: s.TypeMeta, ObjectMeta: *s.DeepCopy(), Spec: s.Spec, Status: s.Status.DeepCopy()}
	if s.Spec.Replicas != nil {
		copied.Spec.Replicas = new(*s.Spec.Replicas)
	}
	return copied
}
