// Package patch computes what a PATCH makes of an object: JSON patches (RFC 6902), merge
// patches (RFC 7386) and Kubernetes' strategic merge patches.
package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/answer"
)

// maxOperations bounds a JSON patch, as in Kubernetes.
const maxOperations = 10_000

// Patcher computes patches of the objects that the table knows.
type Patcher struct{ json runtime.SerializerInfo }

// New makes a patcher.
func New(table *scheme.Table) (*Patcher, error) {
	info, ok := runtime.SerializerInfoForMediaType(table.Codecs().SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return nil, errors.New("making a patcher: the table has no codec for JSON")
	}
	return &Patcher{json: info}, nil
}

// Types are the content types that a PATCH may have.
func Types() []string {
	return []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType)}
}

// Patch is a patch that was read.
type Patch struct {
	kind      types.PatchType
	body      []byte
	directive string
	patcher   *Patcher
	document  map[string]any // of a merge patch of either kind
	ops       jsonpatch.Patch

	// Warnings are what the client should be told of: fields that the patch has twice.
	Warnings []string
}

// Parse reads the body of a PATCH. directive is the fieldValidation of the request: Strict,
// Warn or Ignore; empty means Warn.
func (p *Patcher) Parse(contentType string, body []byte, directive string) (*Patch, error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		mediaType = contentType
	}
	if directive == "" {
		directive = metav1.FieldValidationWarn
	}
	patch := &Patch{kind: types.PatchType(mediaType), body: body, directive: directive, patcher: p}
	switch patch.kind {
	case types.JSONPatchType:
		err = patch.readOperations()
	case types.MergePatchType, types.StrategicMergePatchType:
		err = patch.readDocument()
	case types.ApplyYAMLPatchType:
		return nil, unsupported("server-side apply is not served yet; apply on the client's side (kubectl apply without --server-side)")
	default:
		return nil, answer.UnsupportedMediaType(Types())
	}
	return patch, err
}

// Type is the kind of patch.
func (p *Patch) Type() types.PatchType { return p.kind }

func unsupported(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType,
		Reason: metav1.StatusReasonUnsupportedMediaType, Message: message,
	}}
}

func (p *Patch) readOperations() error {
	ops, err := jsonpatch.DecodePatch(p.body)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if len(ops) > maxOperations {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(ops)))
	}
	p.ops = ops
	var seen any
	return p.strict(kjson.UnmarshalStrict(p.body, &seen))
}

func (p *Patch) readDocument() error {
	strict, err := kjson.UnmarshalStrict(p.body, &p.document)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	if p.document == nil {
		return apierrors.NewBadRequest("error decoding patch: it is no JSON object")
	}
	return p.strict(strict, nil)
}

// strict treats what is wrong with the text of the patch as the directive asks.
func (p *Patch) strict(found []error, err error) error {
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	if len(found) == 0 || p.directive == metav1.FieldValidationIgnore {
		return nil
	}
	if p.directive == metav1.FieldValidationStrict {
		return p.invalid(runtime.NewStrictDecodingError(found))
	}
	for _, err := range found {
		p.Warnings = append(p.Warnings, err.Error())
	}
	return nil
}

// invalid is Kubernetes' error for a patch whose result is not well formed.
func (p *Patch) invalid(err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
		field.Invalid(field.NewPath("patch"), string(p.body), err.Error()),
	})
}

// Apply gives what the patch makes of current, whose group, version and kind are set and
// which stays as it is, together with warnings for the client. empty is a new object of
// current's type.
func (p *Patch) Apply(current, empty runtime.Object) (patched runtime.Object, warnings []string, err error) {
	data, err := p.patch(current, empty)
	if err != nil {
		return nil, nil, err
	}
	gvk := current.GetObjectKind().GroupVersionKind()
	serializer := p.patcher.json.StrictSerializer
	if p.directive == metav1.FieldValidationIgnore {
		serializer = p.patcher.json.Serializer
	}
	patched, found, err := serializer.Decode(data, &gvk, empty)
	if strict, ok := runtime.AsStrictDecodingError(err); ok && patched != nil {
		if p.directive == metav1.FieldValidationStrict {
			return nil, nil, p.invalid(err)
		}
		for _, err := range strict.Errors() {
			warnings = append(warnings, err.Error())
		}
		err = nil
	}
	if err != nil {
		return nil, nil, p.invalid(err)
	}
	if *found != gvk {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("the patch makes a %s of a %s", found, gvk))
	}
	return patched, warnings, nil
}

// patch gives the patched object as JSON.
func (p *Patch) patch(current, empty runtime.Object) (patched []byte, err error) {
	defer func() {
		// The libraries panic on some malformed patches ({"$retainKeys":[{}]} is one), which is
		// the client's fault and must look so.
		if problem := recover(); problem != nil {
			patched, err = nil, apierrors.NewBadRequest(fmt.Sprintf("the patch cannot be applied: %v", problem))
		}
	}()
	var original bytes.Buffer
	if err := p.patcher.json.Serializer.Encode(current, &original); err != nil {
		return nil, fmt.Errorf("encoding an object to be patched: %w", err)
	}
	switch p.kind {
	case types.JSONPatchType:
		patched, err := p.ops.Apply(original.Bytes())
		if err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
		return patched, nil
	case types.MergePatchType:
		patched, err := jsonpatch.MergePatch(original.Bytes(), p.body)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return patched, nil
	}
	var document map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(original.Bytes(), &document); err != nil {
		return nil, fmt.Errorf("reading an object to be patched: %w", err)
	}
	// The merge takes parts of the patch into the result, and a patch may be applied again.
	change := runtime.DeepCopyJSON(p.document)
	merged, err := strategicpatch.StrategicMergeMapPatch(document, change, empty)
	if err != nil {
		return nil, strategicError(err)
	}
	if patched, err = json.Marshal(merged); err != nil {
		return nil, fmt.Errorf("encoding a patched object: %w", err)
	}
	return patched, nil
}

func strategicError(err error) error {
	switch {
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, mergepatch.ErrNoListOfLists), mergepatch.IsPreconditionFailed(err):
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	case mergepatch.IsConflict(err):
		return apierrors.NewConflict(schema.GroupResource{}, "", err)
	}
	return apierrors.NewBadRequest(err.Error())
}
