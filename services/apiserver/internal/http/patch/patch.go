// Package patch computes the result of a PATCH: JSON patches (RFC 6902), merge patches (RFC 7386)
// and Kubernetes' strategic merge patches. For a server-side apply it only reads the document,
// since merging that depends on the owners of fields.
package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/garboard/garboard/libs/quantity"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

// maxOperations bounds the operations of a JSON patch, as in Kubernetes.
const maxOperations = 10_000

// maxCopied bounds the bytes that the copy operations of a JSON patch may create, as in Kubernetes:
// each could double the object.
const maxCopied = 3 << 20

// bounded guards the library's bound, which is a global variable. It is written only once, so that
// patchers may be created while others are in use.
var bounded sync.Once

// Patcher computes patches of the objects that the table knows.
type Patcher struct{ json runtime.SerializerInfo }

// New returns a patcher.
func New(table *scheme.Table) (*Patcher, error) {
	info, ok := runtime.SerializerInfoForMediaType(table.Codecs().SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return nil, errors.New("creating a patcher: the table has no codec for JSON")
	}
	BoundCopies()
	return &Patcher{json: info}, nil
}

// BoundCopies bounds how much the operations of one JSON patch may copy. It applies to all JSON patches
// of the process, and must be called before any is applied.
func BoundCopies() { bounded.Do(func() { jsonpatch.AccumulatedCopySizeLimit = maxCopied }) }

// Types returns the content types that a PATCH of a kind may have. A custom kind has no Go type that
// says how a strategic merge patch merges lists.
func Types(kind *scheme.Kind) []types.PatchType {
	all := []types.PatchType{types.JSONPatchType, types.MergePatchType}
	if !kind.Custom {
		all = append(all, types.StrategicMergePatchType)
	}
	return append(all, types.ApplyYAMLPatchType)
}

// Patch is a parsed patch.
type Patch struct {
	kind      types.PatchType
	body      []byte
	directive string
	patcher   *Patcher
	document  map[string]any // of a merge patch of either kind, or of an apply
	ops       jsonpatch.Patch
	found     []error // faults that strict decoding found in the patch itself
	fault     error   // what is wrong with the patch, known only to those who may patch an existing object
}

// jsonPatchOp lists the fields that JSON patch operations may have, so that others are reported.
// Errors name the type, so it has the name of Kubernetes' own.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

// TypeOf returns the type of a patch of an object of a kind, or an error if the kind takes no patch of
// that content type.
func TypeOf(kind *scheme.Kind, contentType string) (types.PatchType, error) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		mediaType = contentType
	}
	var accepted []string
	for _, form := range Types(kind) {
		if accepted = append(accepted, string(form)); string(form) == mediaType {
			return form, nil
		}
	}
	return "", response.UnsupportedMediaType(accepted)
}

// Parse parses the body of a PATCH. directive is the fieldValidation of the request: Strict, Warn or
// Ignore; empty means Warn. What is wrong with a patch that is JSON is an error of Apply, as in
// Kubernetes, so that an object that doesn't exist comes first.
func (p *Patcher) Parse(kind types.PatchType, body []byte, directive string) (*Patch, error) {
	if directive == "" {
		directive = metav1.FieldValidationWarn
	}
	patch := &Patch{kind: kind, body: body, directive: directive, patcher: p}
	if kind == types.ApplyYAMLPatchType {
		return patch, patch.readWanted()
	}
	if !json.Valid(body) {
		return nil, apierrors.NewBadRequest("invalid JSON patch")
	}
	if kind == types.JSONPatchType {
		patch.fault = patch.readOperations()
	} else {
		patch.fault = patch.readDocument()
	}
	return patch, nil
}

// Type returns the type of the patch.
func (p *Patch) Type() types.PatchType { return p.kind }

func (p *Patch) readOperations() error {
	var err error
	if p.directive != metav1.FieldValidationIgnore {
		var seen []jsonPatchOp
		found, err := kjson.UnmarshalStrict(p.body, &seen)
		if err != nil {
			// The type's package is Kubernetes', too.
			text := strings.ReplaceAll(err.Error(), "patch.jsonPatchOp", "handlers.jsonPatchOp")
			return apierrors.NewBadRequest("error decoding patch: " + text)
		}
		for _, err := range found {
			p.found = append(p.found, fmt.Errorf("json patch %w", err))
		}
	}
	if p.ops, err = jsonpatch.DecodePatch(p.body); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if len(p.ops) > maxOperations {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(p.ops)))
	}
	return nil
}

// readDocument reads the document of a merge patch. It stays nil if the patch is null, which is an
// empty strategic merge patch, and an error for the library that merges the others.
func (p *Patch) readDocument() error {
	if p.directive == metav1.FieldValidationIgnore && p.kind == types.MergePatchType {
		return nil
	}
	var err error
	p.found, err = kjson.UnmarshalStrict(p.body, &p.document)
	if err != nil && p.kind == types.StrategicMergePatchType {
		return apierrors.NewBadRequest(err.Error())
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	return nil
}

// invalid returns Kubernetes' error for a patch whose result is not well formed. value is what the
// error shows: the result, or the patch itself if it is a strategic merge patch.
func invalid(value string, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
		field.Invalid(field.NewPath("patch"), value, err.Error()),
	})
}

// Apply returns the result of applying the patch to current, which must have its group, version and
// kind set and is not changed. It also returns warnings for the client about unknown and duplicate
// fields. empty is a new object of current's type. prune removes unknown fields from a patched object of
// a custom kind, and returns what decoding found with what it found if it is to report that; nil if there
// is nothing to prune. A patched object of a custom kind may be of another kind: the checks of the object refuse
// that.
func (p *Patch) Apply(
	current, empty runtime.Object, prune func(obj runtime.Object, report bool, found error) error,
) (patched runtime.Object, warnings []string, err error) {
	if p.fault != nil {
		return nil, nil, p.fault
	}
	patched, value, err := p.patch(current, empty)
	if patched != nil && prune != nil {
		err = prune(patched, p.directive != metav1.FieldValidationIgnore, err)
	}
	found := p.found
	if strict, ok := runtime.AsStrictDecodingError(err); ok && patched != nil {
		found, err = slices.Concat(found, strict.Errors()), nil
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, invalid(value, err)
	}
	gvk, got := current.GetObjectKind().GroupVersionKind(), patched.GetObjectKind().GroupVersionKind()
	if _, custom := patched.(*unstructured.Unstructured); got != gvk && !custom {
		return nil, nil, anotherKind(value, got, gvk)
	}
	switch {
	case len(found) == 0 || p.directive == metav1.FieldValidationIgnore:
	case p.directive == metav1.FieldValidationStrict:
		return nil, nil, invalid(value, runtime.NewStrictDecodingError(found))
	default:
		for _, err := range found {
			warnings = append(warnings, err.Error())
		}
	}
	return patched, warnings, nil
}

// anotherKind returns the error for a patch whose result has another kind than the object. Kubernetes
// would convert between versions of one kind.
func anotherKind(value string, found, want schema.GroupVersionKind) error {
	if response.SameInternally(found, want) {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the API version in the data (%s) does not match the expected API version (%s)", found.GroupVersion(), want.GroupVersion()))
	}
	return invalid(value, response.UnknownConversion(found, want))
}

// patch returns the patched object and the value that an error about it shows. If its error is a
// strict decoding error, it returns the object too.
func (p *Patch) patch(current, empty runtime.Object) (patched runtime.Object, value string, err error) {
	defer func() {
		// The libraries panic on some malformed patches, such as {"$retainKeys":[{}]}. That is the
		// client's fault and must be reported as such.
		if problem := recover(); problem != nil {
			patched, value, err = nil, "", apierrors.NewBadRequest(fmt.Sprintf("the patch cannot be applied: %v", problem))
		}
	}()
	if p.kind == types.StrategicMergePatchType {
		patched, err = p.merge(current, empty)
		return patched, fmt.Sprintf("%+v", p.document), err
	}
	var original bytes.Buffer
	if err := p.patcher.json.Serializer.Encode(current, &original); err != nil {
		return nil, "", apierrors.NewInternalError(fmt.Errorf("encoding an object to be patched: %w", err))
	}
	var data []byte
	switch p.kind {
	case types.JSONPatchType:
		if data, err = p.ops.Apply(original.Bytes()); err != nil {
			return nil, "", apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
		}
	case types.MergePatchType:
		if data, err = jsonpatch.MergePatch(original.Bytes(), p.body); err != nil {
			return nil, "", apierrors.NewBadRequest(err.Error())
		}
	default:
		return nil, "", apierrors.NewInternalError(fmt.Errorf("a patch of type %s is merged by its owner", p.kind))
	}
	gvk := current.GetObjectKind().GroupVersionKind()
	if _, custom := empty.(*unstructured.Unstructured); !custom {
		if _, err := quantity.Body(data, p.patcher.json, gvk, empty); err != nil {
			return nil, string(data), refused(err)
		}
	}
	patched, found, err := p.patcher.json.StrictSerializer.Decode(data, &gvk, empty)
	if patched != nil && found != nil {
		patched.GetObjectKind().SetGroupVersionKind(*found)
	}
	return patched, string(data), err
}

// merge applies a strategic merge patch. As in Kubernetes, it converts the merged document to an
// object directly, so that errors for values of a wrong type are worded alike.
func (p *Patch) merge(current, empty runtime.Object) (runtime.Object, error) {
	document, err := runtime.DefaultUnstructuredConverter.ToUnstructured(current)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("reading an object to be patched: %w", err))
	}
	// The merge takes parts of the patch into the result, and a patch may be applied again.
	merged, err := strategicpatch.StrategicMergeMapPatch(document, runtime.DeepCopyJSON(p.document), empty)
	if err != nil {
		return nil, strategicError(err)
	}
	err = quantity.Fields(merged, func(fields map[string]any) error {
		return runtime.DefaultUnstructuredConverter.FromUnstructured(fields, quantity.Empty(empty))
	})
	if err != nil {
		return nil, refused(err)
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(merged, empty, true)
	// Kubernetes goes by the type of the object, whatever the patch says of its kind.
	empty.GetObjectKind().SetGroupVersionKind(current.GetObjectKind().GroupVersionKind())
	return empty, err
}

// refused makes an error of the API of a costly quantity.
func refused(err error) error {
	if costly := (*quantity.CostlyError)(nil); errors.As(err, &costly) {
		return apierrors.NewBadRequest(fmt.Sprintf("the patch cannot be applied: %v", costly))
	}
	return err
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
