define internal void @compensation(ptr %panel, i64 %groups) noinline nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" {
entry:
  %no_groups = icmp eq i64 %groups, 0
  br i1 %no_groups, label %done, label %group
group:
  %t = phi i64 [ 0, %entry ], [ %t_next, %group ]
  %total0 = phi <16 x i32> [ zeroinitializer, %entry ], [ %total0_next, %group ]
  %start = mul i64 %t, 16
  %index0 = add i64 %start, 0
  %b0_at = getelementptr i32, ptr %panel, i64 %index0
  %b0 = load <16 x i32>, ptr %b0_at, align 4
  %total0_next_0 = bitcast <16 x i32> splat (i32 -2139062144) to <64 x i8>
  %total0_next_1 = bitcast <16 x i32> %b0 to <64 x i8>
  %total0_next = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %total0, <64 x i8> %total0_next_0, <64 x i8> %total0_next_1)
  %t_next = add i64 %t, 1
  %t_test = icmp slt i64 %t_next, %groups
  br i1 %t_test, label %group, label %done
done:
  %total0_all = phi <16 x i32> [ zeroinitializer, %entry ], [ %total0_next, %group ]
  %negated0 = sub <16 x i32> zeroinitializer, %total0_all
  %end0 = getelementptr i32, ptr %panel, i64 4096
  store <16 x i32> %negated0, ptr %end0, align 4
  ret void
}
