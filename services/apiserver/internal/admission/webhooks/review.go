package webhooks

import (
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
)

// review is the question to one webhook, and the room for its answer.
type review struct {
	uid              types.UID
	question, answer runtime.Object
}

// newReview returns the question in the first version that the webhook accepts and this package knows.
func newReview(r *request, call *invocation, objects *shown) (*review, error) {
	object, old, err := objects.encoded()
	if err != nil {
		return nil, err
	}
	about := cel.CreateAdmissionRequest(r.attributes, metav1.GroupVersionResource(call.resource), metav1.GroupVersionKind(call.kind))
	about.UID = uuid.NewUUID()
	about.Object, about.OldObject = object, old
	about.Options = runtime.RawExtension{Object: r.Options}
	for _, version := range call.versions {
		switch version {
		case admissionv1.SchemeGroupVersion.Version:
			return &review{about.UID, &admissionv1.AdmissionReview{Request: about}, &admissionv1.AdmissionReview{}}, nil
		case admissionv1beta1.SchemeGroupVersion.Version:
			return &review{about.UID, &admissionv1beta1.AdmissionReview{Request: older(about)}, &admissionv1beta1.AdmissionReview{}}, nil
		}
	}
	return nil, errors.New("webhook does not accept known AdmissionReview versions (v1, v1beta1)")
}

// older returns a question in version v1beta1, which has the same fields.
func older(about *admissionv1.AdmissionRequest) *admissionv1beta1.AdmissionRequest {
	return &admissionv1beta1.AdmissionRequest{
		UID: about.UID, Kind: about.Kind, Resource: about.Resource, SubResource: about.SubResource,
		RequestKind: about.RequestKind, RequestResource: about.RequestResource, RequestSubResource: about.RequestSubResource,
		Name: about.Name, Namespace: about.Namespace, Operation: admissionv1beta1.Operation(about.Operation), UserInfo: about.UserInfo,
		Object: about.Object, OldObject: about.OldObject, DryRun: about.DryRun, Options: about.Options,
	}
}

// verdict is a valid answer.
type verdict struct {
	allowed     bool
	patch       []byte
	patchType   admissionv1.PatchType
	result      *metav1.Status
	warnings    []string
	annotations map[string]string
}

// verdict returns the answer, or an error if it is none to this question.
func (r *review) verdict(mutating bool) (*verdict, error) {
	switch answer := r.answer.(type) {
	case *admissionv1.AdmissionReview:
		if answer.Response == nil {
			return nil, errAbsent
		}
		return r.current(answer, mutating)
	case *admissionv1beta1.AdmissionReview:
		response := answer.Response
		if response == nil {
			return nil, errAbsent
		}
		v := &verdict{
			allowed: response.Allowed, result: response.Result, warnings: response.Warnings, annotations: response.AuditAnnotations,
		}
		// Neither kind, uid nor type of patch were ever checked in this version.
		if mutating && len(response.Patch) > 0 {
			v.patch, v.patchType = response.Patch, admissionv1.PatchTypeJSONPatch
		}
		return v, nil
	}
	return nil, fmt.Errorf("unexpected response type %T", r.answer)
}

var errAbsent = errors.New("webhook response was absent")

// current checks an answer in version v1.
func (r *review) current(answer *admissionv1.AdmissionReview, mutating bool) (*verdict, error) {
	response := answer.Response
	if response.UID != r.uid {
		return nil, fmt.Errorf("expected response.uid=%q, got %q", r.uid, response.UID)
	}
	if want := admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"); answer.GroupVersionKind() != want {
		return nil, fmt.Errorf("expected webhook response of %v, got %v", want, answer.GroupVersionKind())
	}
	v := &verdict{
		allowed: response.Allowed, result: response.Result, warnings: response.Warnings, annotations: response.AuditAnnotations,
		patch: response.Patch,
	}
	if response.PatchType != nil {
		v.patchType = *response.PatchType
	}
	patch, typed := len(response.Patch) > 0, response.PatchType != nil
	switch {
	case !mutating && patch:
		return nil, errors.New("validating webhook may not return response.patch")
	case !mutating && typed:
		return nil, errors.New("validating webhook may not return response.patchType")
	case patch && !typed:
		return nil, errors.New("webhook returned response.patch but not response.patchType")
	case typed && !patch:
		return nil, errors.New("webhook returned response.patchType but not response.patch")
	case typed && v.patchType == "":
		return nil, fmt.Errorf("webhook returned invalid response.patchType of %q", v.patchType)
	}
	return v, nil
}
