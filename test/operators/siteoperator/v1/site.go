// Package v1 has the kind of the example operator as etcd holds it: version v1 of Site.
package v1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

// GroupVersion is the group and version of this package's kinds.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "web.example.com", Version: "v1"}
}

// The tiers of a site.
const (
	Free = "Free"
	Paid = "Paid"
)

// Finalizer keeps a deleted site until its hosts are no longer registered.
const Finalizer = "web.example.com/hosts"

// ReadyCondition is the condition that tells whether all replicas of a site are ready.
const ReadyCondition = "Ready"

// Site is a web site.
type Site struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`
}

// Spec is what a user wants of a site.
type Spec struct {
	// Hosts are the names of the site, which no other site has.
	Hosts []string `json:"hosts"`
	// Tier is Free or Paid.
	Tier string `json:"tier,omitempty"`
	// Replicas is the number of servers.
	Replicas *int32 `json:"replicas,omitempty"`
	// Page is the text of the page.
	Page string `json:"page,omitempty"`
}

// Status is what the operator has done for a site.
type Status struct {
	// ObservedGeneration is the generation of the site that this status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is the number of servers that are ready.
	Replicas int32 `json:"replicas"`
	// Selector selects the servers.
	Selector string `json:"selector,omitempty"`
	// Conditions are the conditions of the site.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SiteList is a list of sites.
type SiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Site `json:"items"`
}

var _ conversion.Hub = (*Site)(nil)

// Hub marks the version to and from which all others convert.
func (*Site) Hub() {}

// AddToScheme registers the kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion(), &Site{}, &SiteList{})
	metav1.AddToGroupVersion(scheme, GroupVersion())
	return nil
}

// DeepCopyObject returns a copy.
func (s *Site) DeepCopyObject() runtime.Object { return s.DeepCopy() }

// DeepCopy returns a copy.
func (s *Site) DeepCopy() *Site {
	return &Site{TypeMeta: s.TypeMeta, ObjectMeta: *s.ObjectMeta.DeepCopy(), Spec: s.Spec.DeepCopy(), Status: s.Status.DeepCopy()}
}

// DeepCopy returns a copy.
func (s Spec) DeepCopy() Spec {
	s.Hosts = slices.Clone(s.Hosts)
	if s.Replicas != nil {
		s.Replicas = new(*s.Replicas)
	}
	return s
}

// DeepCopy returns a copy.
func (s Status) DeepCopy() Status {
	s.Conditions = slices.Clone(s.Conditions)
	return s
}

// DeepCopyObject returns a copy.
func (l *SiteList) DeepCopyObject() runtime.Object {
	copied := &SiteList{TypeMeta: l.TypeMeta, ListMeta: *l.DeepCopy(), Items: make([]Site, len(l.Items))}
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopy()
	}
	return copied
}
