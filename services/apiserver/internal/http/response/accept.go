package response

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxAccept bounds how many alternatives of an Accept header are read.
const maxAccept = 64

// Format is how a response is encoded.
type Format struct {
	// Info is the serializer.
	Info runtime.SerializerInfo
	// As is the kind into which the client wants the object converted, empty for none: Table,
	// PartialObjectMetadata, PartialObjectMetadataList, or a kind of discovery.
	As schema.GroupVersionKind
	// Pretty asks for indented JSON.
	Pretty bool
}

// Serializer returns the serializer that the client wants.
func (f Format) Serializer() runtime.Serializer {
	if f.Pretty && f.Info.PrettySerializer != nil {
		return f.Info.PrettySerializer
	}
	return f.Info.Serializer
}

// alternative is one part of an Accept header.
type alternative struct {
	mediaType string
	params    map[string]string
	quality   float64
}

// parseAccept parses an Accept header and returns the most wanted alternative first. It ignores the
// parts that it doesn't understand, as RFC 9110 demands.
func parseAccept(header string) []alternative {
	var list []alternative
	for part := range strings.SplitSeq(header, ",") {
		if len(list) == maxAccept {
			break
		}
		if strings.TrimSpace(part) == "" {
			continue
		}
		mediaType, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		a := alternative{mediaType: mediaType, params: params, quality: 1}
		if q, ok := params["q"]; ok {
			quality, err := strconv.ParseFloat(q, 64)
			if err != nil || quality < 0 {
				continue
			}
			a.quality = quality
			delete(params, "q")
		}
		if a.quality > 0 {
			list = append(list, a)
		}
	}
	slices.SortStableFunc(list, func(a, b alternative) int {
		switch {
		case a.quality > b.quality:
			return -1
		case a.quality < b.quality:
			return 1
		}
		return 0
	})
	return list
}

// Negotiate returns the format of a response. transforms are the kinds into which the response can
// be converted; nil for none. The error is Kubernetes' 406.
func (e *Encoder) Negotiate(r *http.Request, transforms ...schema.GroupVersionKind) (Format, error) {
	return e.negotiate(r, negotiation{transforms: transforms})
}

// NegotiateCustom is Negotiate for objects of a custom kind, which have no protobuf form.
func (e *Encoder) NegotiateCustom(r *http.Request, transforms ...schema.GroupVersionKind) (Format, error) {
	return e.negotiate(r, negotiation{transforms: transforms, custom: true})
}

// NegotiateStream is Negotiate for watches.
func (e *Encoder) NegotiateStream(r *http.Request, transforms ...schema.GroupVersionKind) (Format, error) {
	return e.negotiate(r, negotiation{transforms: transforms, stream: true})
}

// NegotiateCustomStream is NegotiateStream for objects of a custom kind.
func (e *Encoder) NegotiateCustomStream(r *http.Request, transforms ...schema.GroupVersionKind) (Format, error) {
	return e.negotiate(r, negotiation{transforms: transforms, stream: true, custom: true})
}

// negotiation is what a response can be.
type negotiation struct {
	transforms     []schema.GroupVersionKind
	stream, custom bool
}

// lacks reports whether the response has no form with a media type, as an object of kind as.
func (n negotiation) lacks(info runtime.SerializerInfo, as schema.GroupVersionKind) bool {
	switch {
	case n.stream && info.StreamSerializer == nil:
		return true
	case info.MediaType != runtime.ContentTypeProtobuf:
		return false
	}
	return as.Kind == "Table" || n.custom && as.Kind == ""
}

func (e *Encoder) negotiate(r *http.Request, n negotiation) (Format, error) {
	header := strings.Join(r.Header.Values("Accept"), ",")
	if strings.TrimSpace(header) == "" {
		header = "*/*"
	}
	for _, wanted := range parseAccept(header) {
		as := schema.GroupVersionKind{Group: wanted.params["g"], Version: wanted.params["v"], Kind: wanted.params["as"]}
		if as.Kind != "" && !slices.Contains(n.transforms, as) {
			continue
		}
		for _, info := range e.infos {
			if !covers(wanted.mediaType, info.MediaType) || n.lacks(info, as) {
				continue
			}
			if as.Kind == "" {
				as = schema.GroupVersionKind{}
			}
			return Format{Info: info, As: as, Pretty: pretty(r)}, nil
		}
	}
	return Format{}, notAcceptable(e.acceptable(n))
}

func covers(wanted, offered string) bool {
	if wanted == "*/*" || wanted == offered {
		return true
	}
	prefix, ok := strings.CutSuffix(wanted, "*")
	return ok && strings.HasSuffix(prefix, "/") && strings.HasPrefix(offered, prefix)
}

// pretty reports whether to indent JSON: if the client asks for it, and by default for curl, Wget
// and browsers.
func pretty(r *http.Request) bool {
	if values, ok := r.URL.Query()["pretty"]; ok {
		if len(values) == 0 || values[0] == "" {
			return true
		}
		on, err := strconv.ParseBool(values[0])
		return err == nil && on
	}
	agent := r.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") || strings.HasPrefix(agent, "Mozilla/5.0")
}

func notAcceptable(mediaTypes []string) error {
	return status(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable,
		"only the following media types are accepted: "+strings.Join(mediaTypes, ", "))
}

// UnsupportedMediaType returns the error for a body in an unsupported format.
func UnsupportedMediaType(mediaTypes []string) error {
	return status(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType,
		"the body of the request was in an unknown format - accepted media types include: "+strings.Join(mediaTypes, ", "))
}

func status(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

// NotFound returns the error for a path that is not served, in client-go's words.
func NotFound() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{},
	}}
}

// MethodNotAllowed returns the error for a method that a path doesn't support.
func MethodNotAllowed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
		Message: "the server does not allow this method on the requested resource", Details: &metav1.StatusDetails{},
	}}
}

// TooManyRequests returns the error for a client that must wait for the given number of seconds.
func TooManyRequests(seconds int32) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests,
		Message: "Too many requests, please try again later.", Details: &metav1.StatusDetails{RetryAfterSeconds: seconds},
	}}
}
