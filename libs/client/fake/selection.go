package fake

import (
	"fmt"
	"strconv"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/scheme"
)

// selection holds the selectors of one list or watch.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func newSelection(kind *scheme.Kind, namespace string, opts metav1.ListOptions) (selection, error) {
	s := selection{namespace: namespace}
	var err error
	if s.labels, err = labels.Parse(opts.LabelSelector); err != nil {
		return s, apierrors.NewBadRequest(fmt.Sprintf("unable to parse label selector %q: %v", opts.LabelSelector, err))
	}
	if s.fields, err = fields.ParseSelector(opts.FieldSelector); err != nil {
		return s, apierrors.NewBadRequest(fmt.Sprintf("unable to parse field selector %q: %v", opts.FieldSelector, err))
	}
	known := fieldsOf(kind.New())
	for _, requirement := range s.fields.Requirements() {
		if !known.Has(requirement.Field) {
			return s, apierrors.NewBadRequest("field label not supported: " + requirement.Field)
		}
	}
	return s, nil
}

func (s selection) selects(obj scheme.Object) bool {
	if s.namespace != "" && obj.GetNamespace() != s.namespace {
		return false
	}
	return s.labels.Matches(labels.Set(obj.GetLabels())) && s.fields.Matches(fieldsOf(obj))
}

// fieldsOf returns the fields by which an object of its kind can be selected.
func fieldsOf(obj scheme.Object) fields.Set {
	set := fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()}
	switch o := obj.(type) {
	case *corev1.Pod:
		set["spec.nodeName"] = o.Spec.NodeName
		set["spec.restartPolicy"] = string(o.Spec.RestartPolicy)
		set["spec.schedulerName"] = o.Spec.SchedulerName
		set["spec.serviceAccountName"] = o.Spec.ServiceAccountName
		set["spec.hostNetwork"] = strconv.FormatBool(o.Spec.HostNetwork)
		set["status.phase"] = string(o.Status.Phase)
		set["status.podIP"] = o.Status.PodIP
		set["status.nominatedNodeName"] = o.Status.NominatedNodeName
	case *corev1.Node:
		set["spec.unschedulable"] = strconv.FormatBool(o.Spec.Unschedulable)
	case *corev1.Namespace:
		set["status.phase"] = string(o.Status.Phase)
	case *certificatesv1.ClusterTrustBundle:
		set["spec.signerName"] = o.Spec.SignerName
	case *corev1.Secret:
		set["type"] = string(o.Type)
	case *corev1.Service:
		set["spec.clusterIP"] = o.Spec.ClusterIP
		set["spec.type"] = string(o.Spec.Type)
	case *corev1.Event:
		set["involvedObject.kind"] = o.InvolvedObject.Kind
		set["involvedObject.namespace"] = o.InvolvedObject.Namespace
		set["involvedObject.name"] = o.InvolvedObject.Name
		set["involvedObject.uid"] = string(o.InvolvedObject.UID)
		set["involvedObject.apiVersion"] = o.InvolvedObject.APIVersion
		set["involvedObject.fieldPath"] = o.InvolvedObject.FieldPath
		set["reason"] = o.Reason
		set["type"] = o.Type
		set["source"] = o.Source.Component
		set["reportingComponent"] = o.ReportingController
	}
	return set
}
