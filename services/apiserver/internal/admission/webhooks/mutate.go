package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	webhookerrors "k8s.io/apiserver/pkg/admission/plugin/webhook/errors"

	"github.com/garboard/garboard/libs/quantity"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
)

// mutation is one run of all mutating webhooks over one request.
type mutation struct {
	*plugin
	*request
	rounds *rounds
	round  int
	// now is the object in the version in which the last webhook saw it; nil before the first.
	now *shown
	// dirty reports that now has changes that the request's object lacks.
	dirty bool
}

// mutate asks the webhooks that match, one after the other, and lets each change the object.
func (p *plugin) mutate(ctx context.Context, req *admission.Request, hooks []*hook) error {
	m := &mutation{plugin: p, request: newRequest(ctx, req), rounds: roundsOf(req)}
	if req.Reinvoked() {
		m.round = 1
		m.rounds.begin(req.Object)
	}
	defer func() { m.rounds.end(req.Object) }()
	for index, h := range hooks {
		if err := m.one(ctx, h, index); err != nil {
			return err
		}
	}
	return m.finish()
}

// object returns the object as it is now, in whatever version.
func (m *mutation) object() scheme.Object {
	if m.now != nil {
		return m.now.object
	}
	return m.Object
}

// show returns the objects as another kind, and keeps them so.
func (m *mutation) show(kind schema.GroupVersionKind) (*shown, error) {
	if m.now != nil && m.now.kind == kind {
		return m.now, nil
	}
	s, err := m.plugin.show(m.request, m.object(), m.Old, kind)
	if err == nil {
		m.now = s
	}
	return s, err
}

// one asks a webhook, if it matches. A second run asks only those that want to be, and never for the
// first time.
func (m *mutation) one(ctx context.Context, h *hook, index int) error {
	call, err := m.match(ctx, m.request, h, m.object(), func(kind schema.GroupVersionKind) (*shown, error) { return m.show(kind) })
	if err != nil || call == nil || m.Reinvoked() && !m.rounds.wanted[h.id] {
		return err
	}
	objects, err := m.show(call.kind)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	began := time.Now()
	changed, err := m.call(ctx, call, objects, index)
	opened, err := m.settle(ctx, m.request, call, began, err)
	if opened {
		audit.From(ctx).Annotate(fmt.Sprintf("failed-open.mutation.webhook.admission.k8s.io/round_%d_index_%d", m.round, index), h.name)
	}
	if changed {
		m.rounds.changed()
		m.Reinvoke()
	}
	if h.again {
		m.rounds.asked[h.id] = true
	}
	return err
}

// call asks a webhook, and applies its patch to the object. changed reports whether that made a
// difference.
func (m *mutation) call(ctx context.Context, call *invocation, objects *shown, index int) (changed bool, err error) {
	defer func() {
		m.annotate("mutation", index, mutationNote{call.configuration, call.name, changed}, audit.From(ctx).Annotate)
	}()
	answer, err := m.ask(ctx, m.request, call, objects)
	if err != nil {
		return false, err
	}
	m.note(ctx, call, answer, func(text string) { admission.Warn(ctx, text) })
	if !answer.allowed {
		return false, &refusal{webhookerrors.ToStatusErr(call.name, answer.result)}
	}
	if len(answer.patch) == 0 {
		return false, nil
	}
	patched, ops, err := m.patched(call, answer, objects)
	if err != nil || patched == nil {
		return false, err
	}
	changed = !apiequality.Semantic.DeepEqual(objects.object, patched)
	m.annotate("patch", index, patchNote{call.configuration, call.name, ops, string(admissionv1.PatchTypeJSONPatch)}, audit.From(ctx).AnnotateRequest)
	m.cfg.Kinds.Complete(patched)
	m.dirty = true
	m.now, err = m.plugin.show(m.request, patched, objects.old, objects.kind)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return changed, nil
}

// patched returns what a patch makes of the object; nil if the patch is empty.
func (m *mutation) patched(call *invocation, answer *verdict, objects *shown) (scheme.Object, jsonpatch.Patch, error) {
	ops, err := jsonpatch.DecodePatch(answer.patch)
	if err != nil {
		return nil, nil, &callError{call.name, fmt.Errorf("received undecodable patch in webhook response: %w", err), unavailable}
	}
	switch {
	case len(ops) == 0:
		return nil, nil, nil
	case len(ops) > maxOperations:
		return nil, nil, &callError{call.name, fmt.Errorf("received a patch with %d operations, allowed are %d", len(ops), maxOperations), unavailable}
	case objects.object == nil:
		return nil, nil, internal("admission webhook %q attempted to modify the object, which is not supported for this operation", call.name)
	case answer.patchType != admissionv1.PatchTypeJSONPatch:
		status := webhookerrors.ToStatusErr(call.name, answer.result)
		return nil, nil, &callError{call.name, fmt.Errorf("unsupported patch type %q", answer.patchType), int(status.ErrStatus.Code)}
	}
	object, _, err := objects.encoded()
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	data, err := ops.Apply(object.Raw)
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	if len(data) > maxObject {
		return nil, nil, internal("admission webhook %q made an object of %d bytes, allowed are %d", call.name, len(data), maxObject)
	}
	patched, err := m.decode(data, objects)
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	return patched, ops, nil
}

const (
	unavailable = 503
	// maxOperations is how many operations a patch may have; as many as a client's.
	maxOperations = 10000
	// maxObject is the size of the largest object that is decoded, in bytes; the request itself may be
	// as large.
	maxObject = 3 << 20
)

// decode decodes an object of the kind that the webhook saw.
func (m *mutation) decode(data []byte, objects *shown) (scheme.Object, error) {
	codecs := m.cfg.Objects.Table.Codecs()
	info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	into, ok := reflect.TypeAssert[scheme.Object](reflect.New(reflect.TypeOf(objects.object).Elem()))
	if !ok {
		return nil, fmt.Errorf("a %T has no metadata", objects.object)
	}
	if _, err := quantity.Body(data, info, objects.kind, into); err != nil {
		return nil, fmt.Errorf("reading the patched object: %w", err)
	}
	decoded, gvk, err := info.Serializer.Decode(data, &objects.kind, into)
	if err != nil {
		return nil, err //nolint:wrapcheck // The texts are Kubernetes'.
	}
	obj, ok := decoded.(scheme.Object)
	if !ok || reflect.TypeOf(obj) != reflect.TypeOf(objects.object) || *gvk != objects.kind {
		return nil, fmt.Errorf("the patched object is a %v, not a %v", gvk, objects.kind)
	}
	obj.GetObjectKind().SetGroupVersionKind(objects.kind)
	return obj, nil
}

// finish puts what the webhooks made into the request's object.
func (m *mutation) finish() error {
	if !m.dirty {
		return nil
	}
	result, err := m.convert(m.now.object, m.attributes.GetKind())
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if reflect.TypeOf(result) != reflect.TypeOf(m.Object) {
		return internal("admission webhooks made a %T of a %T", result, m.Object)
	}
	// Others hold the request's object, so that it must stay the same one.
	reflect.ValueOf(m.Object).Elem().Set(reflect.ValueOf(result).Elem())
	return nil
}

// mutationNote and patchNote are the values of audit annotations.
type mutationNote struct {
	Configuration string `json:"configuration"`
	Webhook       string `json:"webhook"`
	Mutated       bool   `json:"mutated"`
}

type patchNote struct {
	Configuration string          `json:"configuration"`
	Webhook       string          `json:"webhook"`
	Patch         jsonpatch.Patch `json:"patch,omitempty"`
	PatchType     string          `json:"patchType,omitempty"`
}

// annotate adds an annotation about one webhook in one round.
func (m *mutation) annotate(prefix string, index int, value any, add func(key, value string)) {
	text, err := json.Marshal(value)
	if err != nil {
		m.log.Warn("encoding an audit annotation failed", "err", err)
		return
	}
	add(fmt.Sprintf("%s.webhook.admission.k8s.io/round_%d_index_%d", prefix, m.round, index), string(text))
}
