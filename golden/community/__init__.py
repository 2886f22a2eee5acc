"""The community processor, step by step: plans of shared sums, their execution, whole layers."""
