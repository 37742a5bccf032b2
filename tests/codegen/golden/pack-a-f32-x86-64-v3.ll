define internal void @pack_a(ptr noalias %to, ptr noalias readonly %from, i64 %from_ld, i64 %rows, i64 %steps) noinline nounwind {
entry:
  %rest = urem i64 %steps, 8
  %whole = sub i64 %steps, %rest
  %two_rows = shl i64 %from_ld, 1
  %count = trunc i64 %rest to i32
  %count_one = insertelement <8 x i32> poison, i32 %count, i32 0
  %count_all = shufflevector <8 x i32> %count_one, <8 x i32> poison, <8 x i32> zeroinitializer
  %mask = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %count_all
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %i_next, %row_end ]
  %from_row_start = mul i64 %i, %from_ld
  %from_row = getelementptr float, ptr %from, i64 %from_row_start
  %to_row_start = mul i64 %i, 256
  %to_row = getelementptr float, ptr %to, i64 %to_row_start
  %short = icmp eq i64 %whole, 0
  br i1 %short, label %tail, label %vector
vector:
  %t = phi i64 [ 0, %row ], [ %t_next, %vector ]
  %from_at = getelementptr float, ptr %from_row, i64 %t
  %prefetch = getelementptr float, ptr %from_at, i64 %two_rows
  call void @llvm.prefetch.p0(ptr %prefetch, i32 0, i32 2, i32 1)
  %value = load <8 x float>, ptr %from_at, align 4
  %to_at = getelementptr float, ptr %to_row, i64 %t
  store <8 x float> %value, ptr %to_at, align 4
  %t_next = add i64 %t, 8
  %t_test = icmp slt i64 %t_next, %whole
  br i1 %t_test, label %vector, label %tail
tail:
  %no_tail = icmp eq i64 %rest, 0
  br i1 %no_tail, label %row_end, label %last
last:
  %from_last = getelementptr float, ptr %from_row, i64 %whole
  %value_last = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %from_last, <8 x i1> %mask, <8 x float> zeroinitializer)
  %to_last = getelementptr float, ptr %to_row, i64 %whole
  call void @llvm.masked.store.v8f32.p0(<8 x float> %value_last, ptr align 4 %to_last, <8 x i1> %mask)
  br label %row_end
row_end:
  %i_next = add i64 %i, 1
  %i_test = icmp slt i64 %i_next, %rows
  br i1 %i_test, label %row, label %exit
exit:
  ret void
}
