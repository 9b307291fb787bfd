package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// Record collects what the audit log says about one request while it is served. A nil Record
// collects nothing. Any goroutine may use it.
type Record struct {
	auditor *Auditor
	rule    verdict
	mode    Mode

	mu    sync.Mutex
	event auditv1.Event
}

type recordKey struct{}

// With returns a context that carries record.
func With(ctx context.Context, record *Record) context.Context {
	return context.WithValue(ctx, recordKey{}, record)
}

// From returns the record of the request that ctx belongs to, or nil if it has none.
func From(ctx context.Context) *Record {
	record, _ := ctx.Value(recordKey{}).(*Record)
	return record
}

func (r *Record) wants(level auditv1.Level) bool {
	return r != nil && slices.Index(levels(), r.rule.level) >= slices.Index(levels(), level)
}

// wantsRequest reports whether the request's object is recorded.
func (r *Record) wantsRequest() bool { return r.wants(auditv1.LevelRequest) }

// WantsResponse reports whether the response's object is recorded as well.
func (r *Record) WantsResponse() bool { return r.wants(auditv1.LevelRequestResponse) }

// stage writes an event for a stage that the request has reached.
func (r *Record) stage(stage auditv1.Stage) error {
	if r == nil || slices.Contains(r.rule.omitStages, stage) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.Stage = stage
	r.event.StageTimestamp = metav1.NewMicroTime(time.Now())
	if stage == auditv1.StageRequestReceived {
		r.event.StageTimestamp = r.event.RequestReceivedTimestamp
	}
	return r.auditor.write(&r.event, r.mode)
}

// Started records the status code of the response. If started is true, as for long-running
// requests, it also writes the event ResponseStarted.
func (r *Record) Started(code int, started bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	if r.event.ResponseStatus == nil {
		r.event.ResponseStatus = &metav1.Status{}
	}
	r.event.ResponseStatus.Code = int32(code) //nolint:gosec // A status code has three digits.
	r.mu.Unlock()
	if started {
		_ = r.stage(auditv1.StageResponseStarted) // The sink has logged and counted a failure.
	}
}

// Complete writes the event ResponseComplete. long reports whether the request was a long-running
// one.
func (r *Record) Complete(long bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	early := r.event.ResponseStatus == nil
	if early {
		r.event.ResponseStatus = &metav1.Status{Code: http.StatusOK, Status: metav1.StatusSuccess, Message: "Connection closed early"}
	}
	r.mu.Unlock()
	if early && long {
		_ = r.stage(auditv1.StageResponseStarted)
	}
	_ = r.stage(auditv1.StageResponseComplete)
}

// Panicked writes the event Panic: a handler panicked.
func (r *Record) Panicked(problem any) {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.event.ResponseStatus = &metav1.Status{
		Code: http.StatusInternalServerError, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("APIServer panic'd: %v", problem),
	}
	r.mu.Unlock()
	_ = r.stage(auditv1.StagePanic)
}

// Impersonated records the user that the request acts as, and the constrained verb that allowed it,
// if any.
func (r *Record) Impersonated(user authn.User, constraint string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	info := userInfo(user)
	r.event.ImpersonatedUser = &info
	if constraint != "" {
		r.event.AuthenticationMetadata = &auditv1.AuthenticationMetadata{ImpersonationConstraint: constraint}
	}
}

// Annotate adds an annotation. If the key is already set, its first value stays.
func (r *Record) Annotate(key, value string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, ok := r.event.Annotations[key]; ok {
		if before != value {
			r.auditor.log.Warn("an audit annotation was set twice", "audit", r.event.AuditID, "key", key, "first", before, "second", value)
		}
		return
	}
	// An encoder elsewhere may still be reading the old map.
	annotations := maps.Clone(r.event.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	r.event.Annotations = annotations
}

// AnnotateRequest is Annotate for what reveals parts of the object: it adds nothing unless the object
// is recorded as well.
func (r *Record) AnnotateRequest(key, value string) {
	if r.wantsRequest() {
		r.Annotate(key, value)
	}
}

// Request records the object that the client sent. Its kind must be set.
func (r *Record) Request(obj runtime.Object) {
	if r == nil {
		return
	}
	var encoded *runtime.Unknown
	if r.wantsRequest() {
		encoded = r.encode(obj)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.RequestObject = encoded
	ref, accessor := r.event.ObjectRef, metaOf(obj)
	if ref == nil || accessor == nil {
		return
	}
	ref = ref.DeepCopy()
	if ref.Namespace == "" {
		ref.Namespace = accessor.GetNamespace()
	}
	if ref.Name == "" {
		ref.Name = accessor.GetName()
	}
	if ref.UID == "" {
		ref.UID = accessor.GetUID()
	}
	if ref.ResourceVersion == "" {
		ref.ResourceVersion = accessor.GetResourceVersion()
	}
	r.event.ObjectRef = ref
}

// Patch records the patch that the client sent, as JSON or YAML.
func (r *Record) Patch(patch []byte) {
	if !r.wantsRequest() {
		return
	}
	if !json.Valid(patch) {
		converted, err := yaml.YAMLToJSON(patch)
		if err != nil {
			return // The request will be refused, and such a patch has no JSON form.
		}
		patch = converted
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.RequestObject = &runtime.Unknown{Raw: slices.Clone(patch), ContentType: runtime.ContentTypeJSON}
}

// Response records the object in the response. Its kind must be set.
func (r *Record) Response(obj runtime.Object) {
	if r == nil {
		return
	}
	var encoded *runtime.Unknown
	if r.WantsResponse() {
		encoded = r.encode(obj)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if status, ok := obj.(*metav1.Status); ok {
		r.event.ResponseStatus = &metav1.Status{
			Status: status.Status, Message: status.Message, Reason: status.Reason, Details: status.Details, Code: status.Code,
		}
	}
	r.event.ResponseObject = encoded
}

func (r *Record) encode(obj runtime.Object) *runtime.Unknown {
	if r.rule.omitManagedFields {
		obj = withoutManagedFields(obj)
	}
	data, err := json.Marshal(obj)
	if err != nil {
		r.auditor.log.Error("encoding an object for the audit log failed", "audit", r.event.AuditID, "err", err)
		return nil
	}
	return &runtime.Unknown{Raw: data, ContentType: runtime.ContentTypeJSON}
}

func metaOf(obj runtime.Object) metav1.Object {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	return accessor
}

// withoutManagedFields returns a copy of an object, list or table without managed fields.
func withoutManagedFields(obj runtime.Object) runtime.Object {
	_, isTable := obj.(*metav1.Table)
	if !isTable && metaOf(obj) == nil && !meta.IsListType(obj) {
		return obj
	}
	obj = obj.DeepCopyObject()
	clearFields := func(obj runtime.Object) error {
		if accessor := metaOf(obj); accessor != nil {
			accessor.SetManagedFields(nil)
		}
		return nil
	}
	if table, ok := obj.(*metav1.Table); ok {
		for i := range table.Rows {
			row := &table.Rows[i].Object
			if loose := new(unstructured.Unstructured); row.Raw != nil && loose.UnmarshalJSON(row.Raw) == nil {
				*row = runtime.RawExtension{Object: loose}
			}
			if row.Object != nil {
				_ = clearFields(row.Object)
			}
		}
		return obj
	}
	_ = clearFields(obj)
	if meta.IsListType(obj) {
		_ = meta.EachListItem(obj, clearFields)
	}
	return obj
}
