{{/* Parts specific to the pods of nodes; see garboard.podTemplate. */}}
{{- define "garboard.nodes.own" -}}
{{- $mode := .Values.nodes.runtime.mode -}}
{{- $port := include "garboard.nodes.port" . -}}
{{- if eq $mode "hostPath" }}
hostNetwork: true
{{- end }}
{{- if ne $mode "simulated" }}
privileged: true
{{- end }}
{{- if ne $mode "builtin" }}
# Skip the image's entrypoint, which starts containerd.
command: [nodeagent]
{{- end }}
args:
  {{- if eq $mode "hostPath" }}
  {{- include "garboard.nodes.args" (list . (printf "%s/pki/cluster.kubeconfig" (include "garboard.nodes.hostDir" .))) | nindent 2 }}
  {{- else }}
  {{- include "garboard.nodes.args" (list . "/etc/garboard/join/bootstrap-kubeconfig") | nindent 2 }}
  {{- end }}
{{- if eq $mode "hostPath" }}
# Only this container gets the bootstrap token. It joins, and writes a kubeconfig without the token for the agent. With
# the mode builtin the image's entrypoint does the same.
before:
  name: join
  args:
    {{- include "garboard.nodes.args" (list . "/etc/garboard/join/bootstrap-kubeconfig") | nindent 4 }}
    - --join-only
  volumeMounts:
    - { name: join, mountPath: /etc/garboard/join, readOnly: true }
{{- end }}
env:
  - name: GARBOARD_NODE_NAME
    valueFrom: { fieldRef: { fieldPath: spec.nodeName } }
ports:
  - { name: metrics, containerPort: {{ $port }} }
probes:
  {{- include "garboard.probes" (list "HTTP" "metrics" "/livez" "/readyz") | nindent 2 }}
volumeMounts:
  - { name: pki, mountPath: /etc/garboard/pki, readOnly: true }
  {{- if ne $mode "hostPath" }}
  - { name: join, mountPath: /etc/garboard/join, readOnly: true }
  {{- end }}
  {{- if eq .Values.nats.mode "external" }}
  - { name: nats, mountPath: /etc/garboard/nats, readOnly: true }
  {{- end }}
  - { name: tmp, mountPath: /tmp }
  {{- if eq $mode "builtin" }}
  - { name: data, mountPath: /var/lib/garboard }
  - { name: run, mountPath: /run }
  - { name: cni, mountPath: /etc/cni/net.d }
  - { name: registries, mountPath: /etc/containerd/certs.d }
  - { name: opt, mountPath: /opt/containerd }
  {{- else if eq $mode "hostPath" }}
  # The host's containerd receives paths as they are on the host, and must see what the agent mounts there.
  - { name: data, mountPath: {{ .Values.nodes.dataDir | quote }}, mountPropagation: Bidirectional }
  - { name: containerd, mountPath: /run/containerd }
  {{- else }}
  - { name: data, mountPath: /var/lib/garboard }
  {{- end }}
volumes:
  {{- include "garboard.pki" (list . "nodeagent") | nindent 2 }}
  # Written by the pod that renews tokens; it does not exist before that pod has run.
  - name: join
    secret: { secretName: {{ include "garboard.fullname" . }}-join, defaultMode: 0440 }
  {{- include "garboard.nats.volume" . | nindent 2 }}
  - { name: tmp, emptyDir: {} }
  {{- if eq $mode "simulated" }}
  - { name: data, emptyDir: {} }
  {{- else }}
  - name: data
    hostPath: { path: {{ .Values.nodes.dataDir | quote }}, type: DirectoryOrCreate }
  {{- end }}
  {{- if eq $mode "builtin" }}
  - { name: run, emptyDir: { medium: Memory } }
  - { name: cni, emptyDir: {} }
  - { name: registries, emptyDir: {} }
  - { name: opt, emptyDir: {} }
  {{- else if eq $mode "hostPath" }}
  - name: containerd
    hostPath: { path: {{ .Values.nodes.runtime.hostPath | quote }}, type: Directory }
  {{- end }}
{{- end }}

{{/* The agent's arguments; the other parameter is the bootstrap kubeconfig. */}}
{{- define "garboard.nodes.args" -}}
{{- $bootstrap := index . 1 -}}
{{- with index . 0 -}}
{{- $mode := .Values.nodes.runtime.mode -}}
{{- if eq $mode "hostPath" -}}
- --runtime=unix:///run/containerd/containerd.sock
- --data-dir={{ include "garboard.nodes.hostDir" . }}
{{ else if eq $mode "simulated" -}}
- --runtime=simulated
- --data-dir=/var/lib/garboard/agent
{{ end -}}
- --bootstrap-kubeconfig={{ $bootstrap }}
{{- if eq .Values.nats.mode "builtin" }}
- --nats-bootstrap-servers={{ include "garboard.podURLs" (list . "nats" "wss" 4223) }}
- --api-transport=nats
{{- end }}
- --health-address=0.0.0.0:{{ include "garboard.nodes.port" . }}
{{- $own := eq $mode "builtin" }}
{{- with .Values.nodes.network }}
- --pod-network={{ and $own .podNetwork }}
- --pod-network-mode={{ .podNetworkMode }}
- --service-proxy={{ and $own .serviceProxy }}
- --dns={{ and $own .dns }}
{{- end }}
- --max-pods={{ .Values.nodes.maxPods }}
- --shutdown-grace-period={{ .Values.nodes.shutdownGracePeriod }}
{{- with .Values.nodes.allowedUnsafeSysctls }}
- {{ printf "--allowed-unsafe-sysctls=%s" (join "," .) | quote }}
{{- end }}
{{- with .Values.nodes.labels }}
{{- $labels := list }}
{{- range $key, $value := . }}
{{- $labels = append $labels (printf "%s=%s" $key $value) }}
{{- end }}
- {{ printf "--node-labels=%s" (join "," $labels) | quote }}
{{- end }}
{{ include "garboard.commonArgs" . }}
{{- end }}
{{- end }}

{{/* The agent's data directory on the host. */}}
{{- define "garboard.nodes.hostDir" -}}
{{ .Values.nodes.dataDir }}/$(GARBOARD_NODE_NAME)/agent
{{- end }}

{{/* On the host's network, the kubelet already uses the agent's default port. */}}
{{- define "garboard.nodes.port" -}}
{{ ternary 10348 10248 (eq .Values.nodes.runtime.mode "hostPath") }}
{{- end }}
