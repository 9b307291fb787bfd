package custom

import "k8s.io/apiserver/pkg/util/webhook"

// InvalidAuthority reports whether a definition's conversion webhook is to be trusted by certificates that
// cannot be read.
func InvalidAuthority(of *crd) bool {
	conversion := of.Spec.Conversion
	return conversion != nil && conversion.Webhook != nil && conversion.Webhook.ClientConfig != nil &&
		len(webhook.ValidateCABundle(nil, conversion.Webhook.ClientConfig.CABundle)) > 0
}
