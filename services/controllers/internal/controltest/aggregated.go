package controltest

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// APIService returns the APIService of a version that another server serves.
func APIService(group, version string, priority int32) *apiregistrationv1.APIService {
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: version + "." + group},
		Spec: apiregistrationv1.APIServiceSpec{
			Group: group, Version: version, GroupPriorityMinimum: 1000, VersionPriority: priority,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "api"},
		},
	}
}

// Resources returns what a server says of the resources of one of its versions.
func (p *Plane) Resources(version schema.GroupVersion, resources ...metav1.APIResource) []byte {
	data, err := json.Marshal(&metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
		GroupVersion: version.String(), APIResources: resources,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return data
}
