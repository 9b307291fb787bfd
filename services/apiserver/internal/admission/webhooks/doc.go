// Package webhooks are the plugins MutatingAdmissionWebhook and ValidatingAdmissionWebhook: servers of
// users change and refuse requests. The rules, texts, audit annotations and metrics are Kubernetes'.
//
// An answer is bounded in size and time, and a redirect is not followed. A webhook that hangs holds
// only the requests that ask for it, each until its timeout.
package webhooks
