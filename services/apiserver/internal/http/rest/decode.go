package rest

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/quantity"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// summaryLength is how many bytes of an unreadable body an error shows.
const summaryLength = 30

// decode decodes a body of the request's content type into an object of kind want. With the
// directive Warn, which is the default, unknown and duplicate fields become warnings, with Strict
// they become errors.
//
// An object of a custom kind may turn out to be of another kind of its group and version: as in Kubernetes, that
// is for the checks of the object to refuse.
func (c *call) decode(body []byte, want schema.GroupVersionKind, into runtime.Object, directive string) (warnings []string, err error) {
	info, err := c.bodyFormat(c.r, c.table.Kind(want))
	if err != nil {
		return nil, err
	}
	custom := c.holdsCustom(want)
	if !custom {
		if found, err := quantity.Body(body, info, want, into); err != nil {
			return nil, undecodable(err, found, want, body)
		}
	}
	serializer := info.Serializer
	if directive != metav1.FieldValidationIgnore && info.StrictSerializer != nil {
		serializer = info.StrictSerializer
	}
	obj, found, err := serializer.Decode(body, &want, into)
	if obj == into && found != nil && *found == want {
		err = c.prune(into, directive != metav1.FieldValidationIgnore, err)
	}
	if strict, ok := runtime.AsStrictDecodingError(err); ok && obj != nil && directive != metav1.FieldValidationStrict {
		for _, err := range strict.Errors() {
			warnings = append(warnings, lines(err.Error())...)
		}
		err = nil
	}
	switch {
	case err == nil && (*found == want || custom && found.GroupVersion() == want.GroupVersion()) && obj == into:
		return warnings, nil
	case err == nil && found.GroupVersion() != want.GroupVersion() && (custom || response.SameInternally(*found, want)):
		return nil, apierrors.NewBadRequest(fmt.Sprintf(
			"the API version in the data (%s) does not match the expected API version (%s)", found.GroupVersion(), want.GroupVersion()))
	case err == nil:
		err = response.UnknownConversion(*found, want)
		fallthrough
	default:
		return nil, undecodable(err, found, want, body)
	}
}

// holdsCustom reports whether the objects of the request's custom kind are what a body must hold.
func (c *call) holdsCustom(want schema.GroupVersionKind) bool {
	return c.req.Kind.Custom && c.req.Kind.GroupVersionKind == want
}

// prune removes from the body of a custom kind what its schema does not have, as decoding does for other kinds,
// and what is null where the schema allows no null. found is the error of decoding; unknown fields are added to it
// if report is set.
func (c *call) prune(obj runtime.Object, report bool, found error) error {
	strict, ok := runtime.AsStrictDecodingError(found)
	custom, typed := obj.(scheme.Object)
	if !typed || found != nil && !ok || !c.holdsCustom(obj.GetObjectKind().GroupVersionKind()) {
		return found
	}
	prune := c.resource.Definition().Prune
	if prune == nil {
		return found
	}
	unknown, err := prune(custom, kinds.Pruning{Report: report})
	if err != nil || len(unknown) == 0 || !report {
		return cmp.Or(err, found)
	}
	var all []error
	if strict != nil {
		all = strict.Errors()
	}
	for _, path := range unknown {
		all = append(all, fmt.Errorf("unknown field %q", path))
	}
	return runtime.NewStrictDecodingError(all)
}

// lines splits an error of the YAML decoder, which reports all duplicate fields in one text of
// several lines. A warning holds only one line.
func lines(text string) []string {
	_, listed, ok := strings.Cut(text, "yaml: unmarshal errors:\n")
	if !ok {
		return []string{text}
	}
	var found []string
	for line := range strings.Lines(listed) {
		found = append(found, strings.TrimSpace(line))
	}
	return found
}

// undecodable words the error of a body that cannot be decoded, as Kubernetes does.
func undecodable(err error, found *schema.GroupVersionKind, want schema.GroupVersionKind, body []byte) error {
	if found != nil && found.Kind != "" {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", found.Kind, found.Version, want.Kind, err))
	}
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, summary(body)))
}

// summary returns the beginning of a body: as text if it looks like JSON, else in hexadecimal.
func summary(body []byte) string {
	if len(body) == 0 {
		return "<empty>"
	}
	shown, more := body, ""
	if len(body) > summaryLength {
		shown, more = body[:summaryLength], " ..."
	}
	if body[0] == '{' {
		return string(shown) + more
	}
	return hex.EncodeToString(shown) + more
}

// bodyFormat returns the serializer for the request's content type, or JSON if it has none. Objects of
// a custom kind have no protobuf form.
func (h *Handler) bodyFormat(r *http.Request, about *scheme.Kind) (runtime.SerializerInfo, error) {
	infos := h.table.Codecs().SupportedMediaTypes()
	if about != nil && about.Custom {
		infos = slices.DeleteFunc(slices.Clone(infos), func(info runtime.SerializerInfo) bool { return info.MediaType == runtime.ContentTypeProtobuf })
	}
	header := r.Header.Get("Content-Type")
	if header == "" {
		header = runtime.ContentTypeJSON
	}
	if mediaType, _, err := mime.ParseMediaType(header); err == nil {
		for _, info := range infos {
			if info.MediaType == mediaType {
				return info, nil
			}
		}
	}
	var accepted []string
	for _, info := range infos {
		accepted = append(accepted, info.MediaType)
	}
	return runtime.SerializerInfo{}, response.UnsupportedMediaType(accepted)
}

// options decodes the query of a request into an options struct.
func (h *Handler) options(query url.Values, into runtime.Object) error {
	if err := h.table.Parameters().DecodeParameters(query, schema.GroupVersion{Version: "v1"}, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}
